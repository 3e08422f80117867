"""Getting data into the shape RecBole reads: a CSV file, or the train and test parts others published."""

from .convert import ConversionReport, convert_lightgcn, validation_mask
from .csv_file import CsvReport, convert_csv

__all__ = ["ConversionReport", "CsvReport", "convert_csv", "convert_lightgcn", "validation_mask"]
