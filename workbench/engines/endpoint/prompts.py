"""Prompts of an exact length: by token ids where a server takes them, else by words that it counts itself."""

import random
from collections.abc import Callable

LOWEST_ID, HIGHEST_ID = 1_000, 30_000
"""Ids that every vocabulary of the last years has, above its special tokens."""
MOST_TRIES = 6
_COMMON = (
    "the of and to in is that for it as was with be by on not he his but at are this have from or had an they which "
    "one you were all her she there would their we him been has when who will no more if out so up said what its "
    "about than into them can only other time new some could these two may first then do any like my now over such "
    "our man me even most made after also well many must before back through years where much your way down should "
    "because long each just state those people too good how make still own see men work here get both between life "
    "being under never day same another know while last might us great old year off come since against go came "
    "right take three"
)
WORDS = tuple(_COMMON.split())


def random_ids(n: int, vocabulary: int | None, seed: int) -> list[int]:
    """Ids of a prompt of n tokens; varied, since equal ones are cached by servers and route to the same experts."""
    low, high = LOWEST_ID, HIGHEST_ID
    if vocabulary is not None and vocabulary <= HIGHEST_ID:
        low, high = min(LOWEST_ID, vocabulary // 4), vocabulary
    generator = random.Random(seed)
    return [generator.randrange(low, high) for _ in range(n)]


def random_words(count: int, seed: int) -> str:
    """So many words, most of them one token each in the vocabularies of today."""
    generator = random.Random(seed)
    return " ".join(generator.choice(WORDS) for _ in range(count))


def calibrated_words(n: int, tokens_of: Callable[[int], int]) -> int:
    """How many words make a prompt of n tokens by `tokens_of` a number of words; the nearest that was tried.

    A template's own tokens are in every prompt, so that the shortest may be longer than n.
    """
    count, nearest, least = max(1, n), 1, None
    for _ in range(MOST_TRIES):
        tokens = tokens_of(count)
        off = abs(tokens - n)
        if least is None or off < least:
            nearest, least = count, off
        if off == 0 or (count == 1 and tokens > n):
            break
        step = n - tokens
        count = max(1, count + step)
    return nearest
