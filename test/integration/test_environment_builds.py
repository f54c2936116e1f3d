"""Environments made for real, by uv and by pip, from a local index of stand-in wheels.

Whatever the index holds or does, a run ends either with the build that the table names or with the
reason why not.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hwmatrix.backends import BACKENDS
from hwmatrix.environments import lock, make
from hwmatrix.environments.stamp import NAME
from hwmatrix.errors import EnvironmentBuildError, GuardError
from hwmatrix.model import Backend, Device, Environment, Slot, Variant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

UV = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
with_uv = pytest.param("uv", marks=pytest.mark.skipif(not UV, reason="uv is not installed here"))
INSTALLERS = [with_uv, "pip"]
FAST = "uv" if UV else "pip"

TORCH = """\
from torch.version import __version__
from torch import cuda, version
from torch import cuda as xpu
"""
CUDA = """\
import os
def is_available(): return os.environ.get("STAND_IN_DEVICE") == "yes"
def get_arch_list(): return ["gfx942", "sm_90"]
"""


NPU = "import torch\ntorch.npu = torch.cuda\n"


# ---------------------------------------------------------------- stand-in wheels
def wheel(folder: Path, name: str, version: str, files: Mapping[str, str], *needs: str) -> Path:
    """Return the wheel of a package of a few lines."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    meta = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    meta += [f"Requires-Dist: {need}" for need in needs]
    contents = {
        **files,
        f"{info}/METADATA": "\n".join(meta) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*contents, f"{info}/RECORD"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in {**contents, f"{info}/RECORD": record}.items():
            archive.writestr(file, text)
    return path


def torch_wheel(folder: Path, version: str, **kinds: str) -> Path:
    """Return a stand-in for one build of torch: `torch_wheel(folder, "2+rocm7.2", hip="7.2.1")`."""
    told = {"cuda": None, "hip": None, "xpu": None, **kinds}
    lines = [f"__version__ = {version!r}", *(f"{key} = {value!r}" for key, value in told.items())]
    files = {
        "torch/__init__.py": TORCH,
        "torch/cuda.py": CUDA,
        "torch/version.py": "\n".join(lines) + "\n",
    }
    return wheel(folder, "torch", version, files, "stand-in-dep")


def tool_wheels(folder: Path) -> None:
    wheel(folder, "stand-in-dep", "1.0", {"stand_in_dep.py": ""})
    wheel(folder, "pytest", "9.1", {"pytest.py": ""})
    wheel(folder, "pytest-xdist", "3.8", {"xdist/__init__.py": ""}, "pytest")
    wheel(folder, "pytest-timeout", "2.4", {"pytest_timeout.py": ""}, "pytest")


# ---------------------------------------------------------------- index
class Handler(SimpleHTTPRequestHandler):
    """Serves files; a folder called `slow` answers when the test is over."""

    over = threading.Event()

    def do_GET(self) -> None:
        if "/slow/" in self.path:
            self.over.wait(60)
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its parent's name
        """Say nothing."""


@dataclass
class World:
    """A project, two indexes on loopback, and a home without settings."""

    root: Path
    url: str
    said: list[str] = field(default_factory=list)

    @property
    def state(self) -> Path:
        return self.root / ".hwmatrix"

    def index(self, name: str, *, links: Mapping[str, str] | None = None) -> str:
        """Write the PEP 503 pages of the wheels in `name` and return the index's address."""
        folder = self.root / "served" / name
        packages: dict[str, list[Path]] = {}
        for path in sorted(folder.glob("*.whl")):
            packages.setdefault(path.name.split("-")[0].replace("_", "-"), []).append(path)
        for package, paths in packages.items():
            page = folder / "simple" / package / "index.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            rows = [
                f'<a href="../../{path.name.replace("+", "%2B")}'
                f'#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}">{path.name}</a>'
                for path in paths
            ]
            page.write_text("<!DOCTYPE html><html><body>" + "<br>".join(rows) + "</body></html>")
            for old, new in (links or {}).items():
                page.write_text(page.read_text().replace(old, new))
        return f"{self.url}/served/{name}/simple"

    def env(self, installer: str, **more: str) -> dict[str, str]:
        path = ["/usr/bin", "/bin"]
        if installer == "uv":
            path.insert(0, str(Path(UV or "").parent))
        return {
            "HOME": str(self.root / "home"),
            "PATH": ":".join(path),
            "PIP_INDEX_URL": self.index("default"),
            "PIP_CACHE_DIR": str(self.root / "pip-cache"),
            "UV_CACHE_DIR": str(self.root / "uv-cache"),
            "XDG_CONFIG_DIRS": str(self.root / "xdg"),
            "PIP_RETRIES": "0",
            "NO_PROXY": "127.0.0.1",
            "HWMATRIX_INSTALLER": installer,
            "HWMATRIX_INSTALL_LIMIT_S": "600",
            **more,
        }

    def make(
        self, env: Mapping[str, str], which: Variant | None = None, slot: Slot | None = None
    ) -> Environment:
        which = which or self.rocm()
        return make(
            which,
            torch_check=BACKENDS[which.backend].torch_check,
            slot=slot,
            root=self.root,
            state=self.state,
            env=env,
            say=self.said.append,
        )

    def rocm(self) -> Variant:
        return Variant(
            backend=Backend.AMD,
            name="rocm-7.2",
            torch="2.11.0+rocm7.2",
            index=self.index("rocm"),
            requirements="rocm.in",
            toolkit="7.2",
        )

    def stamps(self) -> list[Path]:
        return sorted(self.state.rglob(NAME))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    root = tmp_path_factory.mktemp("index")
    Handler.over.clear()
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(root)))
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield root, f"http://127.0.0.1:{http.server_address[1]}"
    Handler.over.set()
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture
def world(server: tuple[Path, str], request: pytest.FixtureRequest) -> World:
    """Return a fresh project: the ROCm build on its own index, traps on the default one."""
    top, url = server
    name = f"p{abs(hash(request.node.nodeid)):x}"
    made = World(top / name, f"{url}/{name}")
    served = made.root / "served"
    torch_wheel(served / "rocm", "2.11.0+rocm7.2", hip="7.2.26015")
    torch_wheel(served / "rocm", "2.12.0+rocm7.2", hip="7.2.26015")
    wheel(served / "rocm", "stand-in-dep", "0.9", {"stand_in_dep.py": ""})
    tool_wheels(served / "default")
    # PyPI's torch: newer, and a CUDA build.
    torch_wheel(served / "default", "2.13.0", cuda="13.0")
    torch_wheel(served / "default", "2.11.0", cuda="13.0")
    (made.root / "rocm.in").write_text("pytest\npytest-xdist\npytest-timeout\n")
    return made


def inside(environment: Environment, code: str) -> str:
    done = subprocess.run(
        [environment.python, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


# ---------------------------------------------------------------- the right build
@pytest.mark.parametrize("installer", INSTALLERS)
def test_the_pinned_build_stays_whatever_else_is_offered(world: World, installer: str) -> None:
    """A second index with CUDA builds, an eager upgrade, a global constraint on torch."""
    served = world.root / "served"
    torch_wheel(served / "extra", "2.99.0+cu130", cuda="13.0")
    wheel(served / "extra", "engine", "1.0", {"engine.py": ""}, "torch>=2", "stand-in-dep>=1")
    (world.root / "rocm.in").write_text("pytest\npytest-xdist\npytest-timeout\nengine\ntorch\n")
    (world.root / "xdg/pip").mkdir(parents=True)
    (world.root / "limits.txt").write_text("torch<=2.5\npytest<9.5\n")
    conf = f"[global]\nextra-index-url = {world.index('extra')}\nconstraint = limits.txt\n"
    (world.root / "xdg/pip/pip.conf").write_text(conf)
    env = world.env(installer, PIP_UPGRADE="1", PIP_UPGRADE_STRATEGY="eager", UV_UPGRADE="1")
    environment = world.make(env)
    assert environment.torch == "2.11.0+rocm7.2"
    assert environment.toolkit == "hip 7.2.26015"
    assert inside(environment, "import torch; print(torch.__version__)") == "2.11.0+rocm7.2"
    assert inside(environment, "import engine, hwmatrix; print(hwmatrix.__name__)") == "hwmatrix"
    assert not environment.reused
    assert len(world.stamps()) == 1

    again = world.make(env)
    assert again == replace(environment, reused=True)


def test_a_local_wheel_is_used_without_any_index(world: World) -> None:
    links = world.root / "links"
    torch_wheel(links, "2.11.0+rocm7.2", hip="7.2.1")
    which = replace(world.rocm(), index="http://127.0.0.1:9/nowhere")
    environment = world.make(world.env(FAST, PIP_FIND_LINKS=str(links)), which)
    assert environment.toolkit == "hip 7.2.1"
    assert inside(environment, "import stand_in_dep") == ""


KINDS = [
    (Backend.CPU, "2.13.0+cpu", {}, ""),
    (Backend.CUDA, "2.11.0+cu130", {"cuda": "13.0"}, "13.0"),
    (Backend.AMD, "2.11.0+rocm7.2", {"hip": "7.2.26015"}, "7.2"),
    (Backend.XPU, "2.11.0+xpu", {"xpu": "20250302"}, ""),
    (Backend.NPU, "2.9.0+cpu", {}, ""),
]


@pytest.mark.parametrize(("backend", "version", "kinds", "toolkit"), KINDS)
def test_every_backends_build(
    world: World, backend: Backend, version: str, kinds: dict[str, str], toolkit: str
) -> None:
    torch_wheel(world.root / "served/own", version, **kinds)
    wheel(world.root / "served/own", "stand-in-dep", "0.9", {"stand_in_dep.py": ""})
    wheel(world.root / "served/default", "torch-npu", "2.9.0", {"torch_npu.py": NPU})
    (world.root / "v.in").write_text("pytest\npytest-xdist\npytest-timeout\n")
    which = Variant(
        backend=backend,
        name=f"{backend}-x",
        torch=version,
        index=world.index("own"),
        requirements="v.in",
        toolkit=toolkit,
        companions=("torch-npu==2.9.0",) if backend is Backend.NPU else (),
    )
    assert world.make(world.env(FAST), which).torch == version


def test_npu_without_torch_npu_is_refused(world: World) -> None:
    torch_wheel(world.root / "served/own", "2.9.0+cpu")
    which = replace(
        world.rocm(), backend=Backend.NPU, torch="2.9.0+cpu", index=world.index("own"), toolkit=""
    )
    wheel(world.root / "served/own", "stand-in-dep", "0.9", {"stand_in_dep.py": ""})
    world.index("own")
    with pytest.raises(GuardError, match=r"importing torch, torch_npu fails: No module named"):
        world.make(world.env(FAST), which)
    assert world.stamps() == []


# ---------------------------------------------------------------- the reason why not
@pytest.mark.parametrize("installer", INSTALLERS)
def test_a_dependency_that_wants_a_newer_torch_stops_the_run(world: World, installer: str) -> None:
    needs = ("torch>=2.12", "stand-in-dep")
    wheel(world.root / "served/default", "engine", "1.0", {"engine.py": ""}, *needs)
    (world.root / "rocm.in").write_text("pytest\nengine\n")
    reason = r"(?s)cannot install rocm.in, with torch held at 2.11.0\+rocm7.2.*another torch than"
    with pytest.raises(EnvironmentBuildError, match=reason):
        world.make(world.env(installer))
    assert world.stamps() == []


def test_a_yanked_build_stops_the_run(world: World) -> None:
    which = world.rocm()
    page = world.root / "served/rocm/simple/torch/index.html"
    page.write_text(page.read_text().replace("<a ", '<a data-yanked="broken kernels" '))
    env = world.env(FAST)
    with pytest.raises(EnvironmentBuildError, match=r"this build was withdrawn \(yanked\)"):
        world.make(env, which)
    assert world.stamps() == []


@pytest.mark.parametrize("installer", INSTALLERS)
def test_a_wrong_hash_stops_the_run(world: World, installer: str) -> None:
    which = world.rocm()
    path = next((world.root / "served/rocm").glob("torch-2.11*"))
    page = world.root / "served/rocm/simple/torch/index.html"
    real = hashlib.sha256(path.read_bytes()).hexdigest()
    page.write_text(page.read_text().replace(real, "0" * 64))
    with pytest.raises(EnvironmentBuildError, match=r"does not have the hash that was promised"):
        world.make(world.env(installer), which)
    assert world.stamps() == []


@pytest.mark.parametrize("installer", INSTALLERS)
def test_an_index_that_is_down_stops_the_run(world: World, installer: str) -> None:
    env = world.env(installer, HWMATRIX_TORCH_INDEX="http://127.0.0.1:9/whl/{build}")
    with pytest.raises(EnvironmentBuildError, match=r"the index cannot be reached.*HWMATRIX_TORCH"):
        world.make(env)
    assert world.stamps() == []


def test_an_index_that_never_answers_is_given_up(world: World) -> None:
    slow = {"HWMATRIX_TORCH_INDEX": f"{world.url}/slow/simple", "HWMATRIX_INSTALL_LIMIT_S": "3"}
    with pytest.raises(EnvironmentBuildError, match=r"took longer than 3 s"):
        world.make(world.env(FAST, **slow))
    assert world.stamps() == []


def test_an_index_without_the_build_stops_the_run(world: World) -> None:
    """The default index has 2.11.0; that it would satisfy `torch==2.11.0` must not matter."""
    env = world.env(FAST, HWMATRIX_TORCH_INDEX=world.index("default"))
    with pytest.raises(EnvironmentBuildError, match=r"no build fits this Python"):
        world.make(env)
    assert world.stamps() == []


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        ({"cuda": "13.0"}, r"torch 2.11.0\+rocm7.2 is built for cuda 13.0; torch.version.hip must"),
        ({}, r"is built for none \(a cpu build\)"),
        ({"hip": "7.1.9"}, r"built with toolkit 7.1.9; allowed is 7.2"),
    ],
)
def test_a_build_under_another_name_is_refused(
    world: World, kinds: dict[str, str], reason: str
) -> None:
    torch_wheel(world.root / "served/rocm", "2.11.0+rocm7.2", **kinds)
    with pytest.raises(GuardError, match=reason):
        world.make(world.env(FAST))
    assert world.stamps() == []


def test_an_environment_without_the_tools_is_refused(world: World) -> None:
    (world.root / "rocm.in").write_text("pytest\n")
    with pytest.raises(GuardError, match=r"pytest-xdist: not there; pytest-timeout: not there"):
        world.make(world.env(FAST))


def test_a_device_that_torch_cannot_see_is_said(world: World) -> None:
    gpu = Device(key="0000:05:00.0", token=str(0), name="MI300X", arch="gfx942")
    slot = Slot(index=0, devices=(gpu,), env={"HIP_VISIBLE_DEVICES": "0"}, unset=("STAND_IN",))
    with pytest.raises(GuardError, match=r"is_available\(\) is False, though the probe found MI3"):
        world.make(world.env(FAST), slot=slot)
    seeing = replace(slot, env={"STAND_IN_DEVICE": "yes"})
    assert world.make(world.env(FAST), slot=seeing).torch == "2.11.0+rocm7.2"
    old = replace(seeing, devices=(replace(gpu, arch="gfx1100"),))
    with pytest.raises(GuardError, match=r"built for gfx942, sm_90, and not for gfx1100"):
        world.make(world.env(FAST), slot=old)


def test_a_torch_on_pythonpath_is_refused(world: World) -> None:
    world.make(world.env(FAST))
    other = world.root / "other"
    with zipfile.ZipFile(torch_wheel(other, "2.11.0+rocm7.2", hip="7.2.1")) as archive:
        archive.extractall(other)
    with pytest.raises(GuardError, match=r"outside its own folder: PYTHONPATH"):
        world.make(world.env(FAST, PYTHONPATH=str(other)))
    assert world.make(world.env(FAST)).reused


# ---------------------------------------------------------------- reuse
def test_another_torch_put_in_later_is_noticed_and_built_anew(world: World) -> None:
    first = world.make(world.env(FAST))
    version = next(Path(first.folder).rglob("torch/version.py"))
    version.unlink()
    version.write_text("__version__ = '2.13.0'\ncuda = '13.0'\n")
    again = world.make(world.env(FAST))
    assert (again.torch, again.reused, again.folder) == (first.torch, False, first.folder)
    assert any("is no longer what it was" in line for line in world.said)


def test_a_torn_build_is_never_used(world: World) -> None:
    first = world.make(world.env(FAST))
    (Path(first.folder) / NAME).unlink()
    (Path(first.folder) / "left-over").touch()
    again = world.make(world.env(FAST))
    assert not again.reused
    assert not (Path(first.folder) / "left-over").exists()


def test_an_environment_whose_interpreter_is_gone_is_built_anew(world: World) -> None:
    first = world.make(world.env(FAST))
    python = Path(first.python)
    python.unlink()
    python.symlink_to(world.root / "removed")
    assert not world.make(world.env(FAST)).reused


def test_two_sessions_build_one_environment(world: World) -> None:
    made: list[Environment] = []
    env = world.env(FAST)
    which = world.rocm()
    threads = [
        threading.Thread(target=lambda: made.append(world.make(env, which))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert sorted(environment.reused for environment in made) == [False, True]
    assert made[0].folder == made[1].folder


def test_a_place_that_cannot_be_written_is_named(world: World) -> None:
    world.state.parent.mkdir(parents=True, exist_ok=True)
    world.state.touch()
    with pytest.raises(EnvironmentBuildError, match=r"must be writable, or HWMATRIX_STATE"):
        world.make(world.env(FAST))


def test_constraints_that_cannot_be_read_are_named(world: World) -> None:
    with pytest.raises(EnvironmentBuildError, match=r"cannot read the constraints .*no.txt"):
        world.make(world.env(FAST, PIP_CONSTRAINT="no.txt"))


# ---------------------------------------------------------------- locks
@pytest.mark.skipif(not UV, reason="uv is not installed here")
def test_a_lock_names_all_but_torch_and_is_installed_by_hash(world: World) -> None:
    env, which = world.env("uv"), world.rocm()
    environment = world.make(env, which)
    path = lock(
        which, environment, root=world.root, state=world.state, env=env, say=world.said.append
    )
    assert path == world.root / "rocm.lock"
    text = path.read_text()
    names = re.findall(r"^([a-z-]+)==([^ ]+)", text, re.MULTILINE)
    assert names == [
        ("pytest", "9.1"),
        ("pytest-timeout", "2.4"),
        ("pytest-xdist", "3.8"),
        ("stand-in-dep", "1.0"),
    ]
    again = world.make(env, which)
    assert not again.reused
    assert again.torch == environment.torch
    assert world.said[-1] == "install rocm.lock, by hash ..."

    path.write_text(re.sub(r"sha256:[0-9a-f]{64}$", f"sha256:{'0' * 64}", text, flags=re.MULTILINE))
    header = text.splitlines()[2]
    path.write_text(path.read_text().replace(path.read_text().splitlines()[2], header))
    with pytest.raises(EnvironmentBuildError, match=r"cannot install rocm.lock, by hash.*the hash"):
        world.make(env, which)
    world.make({**env, "HWMATRIX_LOCK": "off"}, which)


# ---------------------------------------------------------------- somebody else's environment
@pytest.fixture
def container(world: World) -> Path:
    """Return the interpreter of an environment with torch and numpy but no pytest."""
    folder = world.root / "container"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next(folder.glob("lib/python3*/site-packages"))
    for path in (
        torch_wheel(world.root / "built", "2.9.0a0+git1234", hip="7.2.5"),
        wheel(world.root / "built", "stand-in-dep", "1.0", {"stand_in_dep.py": ""}),
    ):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(site)
    return folder / "bin/python"


def take(world: World, python: Path, overlay: Path | None, **more: str) -> Environment:
    return make(
        replace(world.rocm(), index="http://127.0.0.1:9/nowhere"),
        torch_check=BACKENDS[Backend.AMD].torch_check,
        slot=None,
        root=world.root,
        state=world.state,
        env={"PATH": "/usr/bin:/bin", "HWMATRIX_PYTHON": str(python), **more},
        overlay=overlay,
        no_venv=True,
        say=world.said.append,
    )


def overlay_of(world: World) -> Path:
    overlay = world.root / "overlay"
    for path in sorted((world.root / "served/default").glob("*.whl")):
        if not path.name.startswith("torch"):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(overlay)
    return overlay


def test_no_venv_takes_what_is_there(world: World, container: Path) -> None:
    environment = take(world, container, overlay_of(world))
    assert environment.python == str(container)
    assert environment.torch == "2.9.0a0+git1234"
    assert environment.notes == (
        "from the overlay: pytest 9.1, pytest-timeout 2.4, pytest-xdist 3.8",
        "torch is 2.9.0a0+git1234, the table pins 2.11.0+rocm7.2",
    )
    done = subprocess.run(
        [environment.python, "-c", "import hwmatrix, xdist, torch; print(torch.__version__)"],
        env=dict(environment.env),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == environment.torch
    assert not list(world.root.glob(".hwmatrix/envs"))


def test_no_venv_keeps_an_inherited_path_in_front(world: World, container: Path) -> None:
    environment = take(world, container, overlay_of(world), PYTHONPATH="/mine")
    assert environment.env["PYTHONPATH"].split(":")[0] == "/mine"


def test_no_venv_without_the_tools_says_how_to_make_an_overlay(
    world: World, container: Path
) -> None:
    reason = r"pytest: not there; pytest-xdist: not there.*pip install --target DIR .*--overlay DIR"
    with pytest.raises(EnvironmentBuildError, match=reason):
        take(world, container, None)


def test_no_venv_with_a_torch_of_another_kind_is_refused(world: World, container: Path) -> None:
    version = next(container.parents[1].rglob("torch/version.py"))
    version.write_text("__version__ = '2.11.0+cu130'\ncuda = '13.0'\nhip = None\nxpu = None\n")
    with pytest.raises(GuardError, match=r"built for cuda 13.0; torch.version.hip must be set"):
        take(world, container, overlay_of(world))


def test_no_venv_without_torch_is_refused(world: World, container: Path) -> None:
    shutil.rmtree(next(container.parents[1].rglob("torch/version.py")).parent)
    with pytest.raises(GuardError, match=r"cannot import torch \(No module named 'torch'\)"):
        take(world, container, overlay_of(world))


def test_an_overlay_needs_no_venv(world: World) -> None:
    with pytest.raises(EnvironmentBuildError, match=r"--overlay goes with --no-venv"):
        make(
            world.rocm(),
            torch_check=BACKENDS[Backend.AMD].torch_check,
            slot=None,
            root=world.root,
            state=world.state,
            env={},
            overlay=world.root,
            say=print,
        )
