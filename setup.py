"""The ranges of versions that work; requirements.txt and requirements-oldest.txt pin what is tested."""

import re
from pathlib import Path

from setuptools import find_packages, setup

PROPERTIES = "recbole_adaptau.properties"

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "recbole_adaptau" / "__init__.py").read_text(encoding="utf-8"))

# What RecBole 1.2.1 imports, or a function of its that most people call.
RECBOLE_NEEDS = [
    "torch>=2.6",  # patches/checkpoints.py makes RecBole's checkpoints load under weights_only=True
    "colorlog>=4.7.2",
    "colorama>=0.4.4",
    "texttable>=0.9",
    "psutil>=5.9",
    "thop>=0.1.1.post2207130030",  # FLOPs, in run_recbole
    "setuptools; python_version >= '3.12'",  # thop imports distutils
]
EXTRAS = {
    "parallel": ["ray>=2.6"],
    "tune": ["hyperopt>=0.2.5"],
    "plot": ["matplotlib>=3.9"],
    "report": ["plotly>=5"],
    "tensorboard": ["tensorboard>=2.14"],
    "parquet": ["pyarrow>=14"],
    "faiss": ["faiss-cpu>=1.8"],
    "ials": ["implicit>=0.7.3"],
    "ncl": ["faiss-cpu>=1.8"],
}
UNPINNED = {
    "mlflow": ["mlflow-skinny>=2.14"],
    "docs": ["mkdocs-material>=9.5,<10", "mkdocstrings[python]>=0.26", "mkdocs-jupyter>=0.25", "nbclient>=0.10"],
}

setup(
    name="recbole_adaptau",
    version=VERSION and VERSION[1],
    description="Adap-tau for RecBole: softmax collaborative filtering with a temperature in closed form",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="the recbole_adaptau authors",
    license="MIT",
    license_files=["LICENSE"],
    keywords=[
        "recommender systems",
        "collaborative filtering",
        "softmax loss",
        "temperature",
        "contrastive learning",
        "LightGCN",
        "RecBole",
    ],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "License :: OSI Approved :: MIT License",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Programming Language :: Python :: 3.14",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    python_requires=">=3.10,<3.15",
    packages=[*find_packages(include=["recbole_adaptau", "recbole_adaptau.*"]), PROPERTIES],
    package_dir={PROPERTIES: "properties"},
    package_data={
        "recbole_adaptau": ["py.typed", "reporting/html/page.*"],
        PROPERTIES: ["*.yaml", "*/*.yaml", "*/*.test"],
    },
    install_requires=[
        # RecBole asks for ray<=2.6.3, which has no build for 3.12: there it is installed by itself, with --no-deps.
        "recbole==1.2.1; python_version < '3.12'",
        *RECBOLE_NEEDS,
        "numpy>=1.26",
        "pandas>=2",
        "scipy>=1.11.1",
        "scikit-learn>=1.3",
        "statsmodels>=0.14",
        "pydantic>=2.7",
        "Jinja2>=3.1",
        "filelock>=3.16",
        "PyYAML>=6",
        "safetensors>=0.4",
        "tqdm>=4.60",
        "typing_extensions",  # Self, which typing has since Python 3.11
    ],
    # The last two are for other programs than the tested one, and not pinned.
    extras_require={**EXTRAS, "all": sorted({package for extra in EXTRAS.values() for package in extra}), **UNPINNED},
    entry_points={"console_scripts": ["recbole-adaptau=recbole_adaptau.cli.main:main"]},
)
