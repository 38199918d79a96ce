"""The compiled parts of setebench and where its packages lie; pyproject.toml says everything else."""

import platform
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext


class build_ext_with_assembly(build_ext):
    """gcc assembles .S files as it compiles .c files, but setuptools has to be told that they are sources."""

    def build_extensions(self) -> None:
        if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
            sys.exit(
                f"setebench measures x86-64 CPUs under Linux; this is {platform.machine()} under {sys.platform}. "
                "Build it on an x86-64 Linux machine."
            )
        self.compiler.src_extensions = [*self.compiler.src_extensions, ".S"]
        super().build_extensions()


native = Extension(
    "setebench.native._engine",
    sources=[
        "setebench/native/_engine.pyx",
        "setebench/native/guard.c",
        *sorted(str(path) for path in Path("asm").glob("*.S")),
    ],
    depends=["asm/snippet.inc", "setebench/native/engine.h"],
    include_dirs=["setebench/native"],
    extra_compile_args=["-O2"],
    # an executable stack would be refused by newer C libraries, and no snippet needs one
    extra_link_args=["-Wl,-z,noexecstack"],
)

perf = Extension(
    "setebench.native.perf._perf",
    sources=["setebench/native/perf/_perf.pyx"],
    depends=["setebench/include/setebench.h"],
    include_dirs=["setebench/include"],
    extra_compile_args=["-O2"],
    extra_link_args=["-Wl,-z,noexecstack"],
)

LOOPS = Path("setebench/native/loops")

loops = Extension(
    "setebench.native.loops._loops",
    sources=[str(LOOPS / name) for name in ("_loops.pyx", "versions.c")],
    depends=[str(path) for path in sorted(LOOPS.glob("*.h"))],
    include_dirs=[str(LOOPS)],
    # versions of a loop differ in what they prefetch and in nothing else: loops begin at places alike, the compiler
    # prefetches nothing on its own, and nothing that a distribution adds is timed
    extra_compile_args=[
        *("-O3", "-mprfchw", "-fno-prefetch-loop-arrays", "-fno-stack-protector"),
        *("-falign-functions=64", "-falign-loops=32"),
    ],
    extra_link_args=["-Wl,-z,noexecstack"],
)


setup(
    packages=[
        *find_packages(include=["setebench", "setebench.*"]),
        "setebench.scenarios",
        *(f"setebench.scenarios.{name}" for name in find_packages("scenarios")),
    ],
    package_dir={"setebench.scenarios": "scenarios"},
    ext_modules=cythonize([native, loops, perf], language_level=3),
    cmdclass={"build_ext": build_ext_with_assembly},
)
