"""Getting data into the shape RecBole reads, with the train and test parts others published."""

from recbole_adaptau.data.convert import ConversionReport, convert_lightgcn, validation_mask

__all__ = ["ConversionReport", "convert_lightgcn", "validation_mask"]
