"""Which column of a table holds the users, the items, the times and the ratings."""

import re
from dataclasses import dataclass

from ..errors import DataError, did_you_mean
from .readers import Reader

# What a column may be called to be found without being named; case and what is neither letter nor digit do not matter.
USUAL = {
    "user": (
        "user_id", "user", "uid", "customer_id", "customer", "client_id", "member_id", "visitor_id", "account_id",
        "buyer_id", "buyer", "reviewer_id", "reader_id", "viewer_id", "profile_id",
    ),
    "item": (
        "item_id", "item", "iid", "product_id", "product", "article_id", "article", "sku", "asin", "movie_id", "movie",
        "film_id", "film", "book_id", "isbn", "song_id", "track_id", "artist_id", "business_id", "video_id",
        "content_id", "stock_code", "news_id", "game_id",
    ),
    "time": ("timestamp", "time", "datetime", "date", "ts", "event_time", "created_at", "invoice_date",
             "unix_review_time"),
    "rating": ("rating", "ratings", "stars", "star_rating", "overall", "score"),
}  # fmt: skip
NAMES = ("title", "name", "item_name", "product_name", "product_title", "movie_title", "book_title")


NONE = "none"  # said of a column that is not to be used


@dataclass(frozen=True)
class Columns:
    """Which column is which, where they do not have a usual name; `none` for a time or rating not to be used."""

    user: str | None = None
    item: str | None = None
    time: str | None = None
    rating: str | None = None


def find_columns(reader: Reader, given: dict[str, str | None]) -> dict[str, str]:
    """Which column is which; time and rating may be missing."""
    by_plain = {plain(column): column for column in reversed(reader.columns)}
    columns: dict[str, str] = {}
    for kind, named in given.items():
        optional = kind in ("time", "rating")
        if named is not None and named not in reader.columns:
            if optional and named == NONE:
                continue
            raise DataError(
                f"{reader.path} has no column '{named}'; it has: {', '.join(reader.columns)}."
                f"{did_you_mean(named, reader.columns)}"
            )
        others = [value for other, value in given.items() if optional and other != kind]
        usual = (by_plain[plain(name)] for name in USUAL[kind] if by_plain.get(plain(name)) not in (None, *others))
        column = named if named is not None else next(usual, None)
        if column is not None:
            columns[kind] = column
        elif not optional:
            raise DataError(f"{reader.path}: {_unnamed(reader, kind)}")
    if len(set(columns.values())) < len(columns):
        raise DataError(f"{reader.path}: user, item, time and rating must be different columns, not {columns}.")
    return columns


def _unnamed(reader: Reader, kind: str) -> str:
    has = f"it has: {', '.join(reader.columns)}"
    if reader.looks_headless():
        return (
            f"the first line looks like data, not like a header ({has}); add --no-header and name the columns by "
            "number, as --user 1 --item 2."
        )
    example = reader.columns[0 if kind == "user" else 1 if len(reader.columns) > 1 else 0]
    return (
        f"no column is called {', '.join(USUAL[kind][:3])} or the like; {has}. Name it: --{kind} COLUMN, as --{kind} "
        f"{example!r}."
    )


def plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower())
