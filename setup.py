"""The versions that work together; requirements.txt pins exactly those that are tested."""

import re
from pathlib import Path

from setuptools import find_packages, setup

PROPERTIES = "recbole_adaptau.properties"

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "recbole_adaptau" / "__init__.py").read_text(encoding="utf-8"))

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
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    # ray <= 2.6.3, which RecBole 1.2.1 asks for, ends at 3.11; today's PyTorch starts at 3.10.
    python_requires=">=3.10,<3.12",
    packages=[*find_packages(include=["recbole_adaptau", "recbole_adaptau.*"]), PROPERTIES],
    package_dir={PROPERTIES: "properties"},
    package_data={
        "recbole_adaptau": ["py.typed", "reporting/html/page.*"],
        PROPERTIES: ["*.yaml", "*/*.yaml", "*/*.test"],
    },
    install_requires=[
        "recbole==1.2.1",
        "torch>=2.6",  # patches/checkpoints.py makes RecBole's checkpoints load under weights_only=True
        "numpy>=1.26,<2",  # RecBole issue 2215: np.float_ and friends are gone in 2
        "pandas>=1.5,<3",  # RecBole issue 2215: chained inplace fillna no longer writes in 3
        "scipy>=1.11,<1.13",  # RecBole issue 2215: dok_matrix._update is gone in 1.13
        "setuptools<81",  # RecBole issue 2215: ray 2.6.3 imports pkg_resources
        "scikit-learn>=1.0",
        "statsmodels>=0.14",
        "pydantic>=2.7",
        "Jinja2>=3.1",
        "filelock>=3.16",
        "PyYAML>=6",
        "safetensors>=0.4",
        "tqdm>=4.60",
    ],
    extras_require={
        "ncl": ["faiss-cpu>=1.8"],
        "faiss": ["faiss-cpu>=1.8"],
        "parquet": ["pyarrow>=14,<23"],  # later ones need NumPy 2
        "tune": ["hyperopt==0.2.5"],
        "plot": ["matplotlib>=3.7"],
        "mlflow": ["mlflow-skinny>=2.14"],
        "docs": ["mkdocs-material>=9.5,<10", "mkdocstrings[python]>=0.26", "mkdocs-jupyter>=0.25", "nbclient>=0.10"],
    },
    entry_points={"console_scripts": ["recbole-adaptau=recbole_adaptau.cli.main:main"]},
)
