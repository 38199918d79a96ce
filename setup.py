"""Build of setebench: the native engine (Cython, C guard, assembly snippets) and the kernel's performance events."""

import platform
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
    sys.exit(
        f"setebench measures x86-64 CPUs under Linux; this is {platform.machine()} under {sys.platform}. "
        "Build it on an x86-64 Linux machine."
    )


class build_ext_with_assembly(build_ext):
    """gcc assembles .S files as it compiles .c files, but setuptools has to be told that they are sources."""

    def build_extensions(self) -> None:
        self.compiler.src_extensions = [*self.compiler.src_extensions, ".S"]
        super().build_extensions()


native = Extension(
    "setebench.native._engine",
    sources=[
        "setebench/native/_engine.pyx",
        "setebench/native/guard.c",
        *sorted(str(path) for path in Path("asm").glob("*.S")),
    ],
    depends=[
        "asm/snippet.inc",
        "asm/stream_kernels.inc",
        "asm/stream_width.inc",
        *sorted(str(path) for kind in ("*.h", "*.pxd", "*.pxi") for path in Path("setebench/native").glob(kind)),
    ],
    include_dirs=["setebench/native"],
    extra_compile_args=["-O2"],
    # an executable stack would be refused by newer C libraries, and no snippet needs one
    extra_link_args=["-Wl,-z,noexecstack"],
)

perf = Extension(
    "setebench.native.perf._perf",
    sources=["setebench/native/perf/_perf.pyx"],
    depends=["setebench/native/perf/page.h"],
    include_dirs=["setebench/native/perf"],
    extra_compile_args=["-O2"],
    extra_link_args=["-Wl,-z,noexecstack"],
)

regions = Extension(
    "setebench.native.perf.program._regions",
    sources=["setebench/native/perf/program/_regions.pyx"],
    depends=["setebench/include/setebench.h"],
    include_dirs=["setebench/include"],
    extra_compile_args=["-O2"],
    extra_link_args=["-Wl,-z,noexecstack"],
)

LOOPS = Path("setebench/native/loops")

loops = Extension(
    "setebench.native.loops._loops",
    sources=[str(LOOPS / name) for name in ("_loops.pyx", "versions.c", "compiler.c", "timing.c")],
    depends=[str(path) for path in sorted(LOOPS.glob("*.h"))],
    include_dirs=[str(LOOPS)],
    # versions of a loop differ in what they prefetch and in nothing else: loops begin at places alike, the compiler
    # prefetches on its own only where compiler.c asks it to, and nothing that a distribution adds is timed
    extra_compile_args=[
        *("-O3", "-mprfchw", "-fno-prefetch-loop-arrays", "-fno-stack-protector"),
        *("-falign-functions=64", "-falign-loops=32"),
    ],
    extra_link_args=["-Wl,-z,noexecstack"],
)


setup(
    name="setebench",
    version="0.1.0",
    description="Measures what a memory system does that its vendor does not say, with short elapsed-time events",
    long_description=Path("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=[
        *find_packages(include=["setebench", "setebench.*"]),
        "setebench.scenarios",
        *(f"setebench.scenarios.{name}" for name in find_packages("scenarios")),
    ],
    package_dir={"setebench.scenarios": "scenarios"},
    package_data={
        "setebench": ["py.typed", "include/*.h"],
        "setebench.native": ["*.pyi"],
        "setebench.native.loops": ["*.pyi"],
        "setebench.native.perf": ["*.pyi", "events/*.toml"],
        "setebench.native.perf.program": ["*.pyi"],
        "setebench.references": ["*.toml"],
        "setebench.report": ["templates/*.j2"],
        "setebench.sim": ["presets/*.toml"],
        "setebench.sim.recordings": ["*.npz"],
    },
    ext_modules=cythonize([native, loops, perf, regions], language_level=3),
    cmdclass={"build_ext": build_ext_with_assembly},
    install_requires=[
        "click>=8.1",
        "iced-x86>=1.21",
        "jinja2>=3.1",
        "matplotlib>=3.8",
        "msgspec>=0.18",
        "numba>=0.60",
        "numpy>=2.0",
        "pyelftools>=0.31",
        "rich>=13",
        "scipy>=1.11",
        "tabulate>=0.9",
    ],
    extras_require={
        "cluster": ["distributed>=2024.1"],
        "reframe": ["ReFrame-HPC>=4.6"],
        "docs": ["mkdocs>=1.6"],
        "test": [
            "distributed>=2024.1",  # or the tests of clusters would be skipped
            "pytest>=8",
            "pytest-xdist>=3.5",
            "hypothesis>=6",
            "mypy>=1.10",
            "ruff>=0.5",
            "cython-lint>=0.16",
            "codespell>=2.3",
        ],
    },
    entry_points={"console_scripts": ["setebench = setebench.__main__:main"]},
)
