"""Getting data into the shape RecBole reads: a file of interactions, or the train and test parts others published."""

from .columns import Columns
from .convert import ConversionReport, convert_lightgcn, validation_mask
from .importer import ImportReport, import_file

__all__ = ["Columns", "ConversionReport", "ImportReport", "convert_lightgcn", "import_file", "validation_mask"]
