"""Chinese phrases with the reading of every character: real data, in which a reading depends on the phrase.

A character such as 行 is read háng in 银行 and xíng in 行走. `phrases` is the phrase dictionary inside the
package pypinyin-dict (MIT licence): 411,957 phrases, 1,029,973 characters, 1,549 readings. `tiny_phrases`
needs no package.
"""

from __future__ import annotations

import gc
from itertools import chain

import numpy as np

from monolayer.data.labels import Labels
from monolayer.data.names import NameBuilder, Names
from monolayer.data.sequences import Sequences
from monolayer.errors import needs_extra

_TINY_PHRASES = """
银行 yín háng|行走 xíng zǒu|旅行 lǚ xíng|行业 háng yè|自行车 zì xíng chē
长城 cháng chéng|校长 xiào zhǎng|长江 cháng jiāng|成长 chéng zhǎng|特长 tè cháng
音乐 yīn yuè|快乐 kuài lè|乐器 yuè qì|欢乐 huān lè
重要 zhòng yào|重复 chóng fù|重量 zhòng liàng|重新 chóng xīn
首都 shǒu dū|都是 dōu shì|都市 dū shì
朝阳 zhāo yáng|朝代 cháo dài|朝鲜 cháo xiǎn
便宜 pián yi|方便 fāng biàn
毛发 máo fà|发现 fā xiàn|理发 lǐ fà
觉得 jué de|睡觉 shuì jiào|得到 dé dào
还是 hái shì|归还 guī huán
教书 jiāo shū|教室 jiào shì
中国 zhōng guó|中奖 zhòng jiǎng
为了 wèi le|了解 liǎo jiě|认为 rèn wéi
水性杨花 shuǐ xìng yáng huā
"""


def phrases() -> Sequences:
    """The phrase dictionary of pypinyin-dict: tokens are characters, labels their readings."""
    collecting = gc.isenabled()
    gc.disable()  # it would go through 1.4 million new lists again and again for nothing
    try:
        from pypinyin_dict.phrase_pinyin_data import large_pinyin
    except ImportError:
        raise needs_extra("the phrase dictionary comes with the package pypinyin-dict", "demo") from None
    finally:
        if collecting:
            gc.enable()
    table: dict[str, list[list[str]]] = large_pinyin.phrases_dict
    # One code point is four bytes of UTF-32: the characters of all phrases are one array of integers.
    points = np.frombuffer("".join(table).encode("utf-32-le"), dtype=np.uint32)
    characters, tokens = np.unique(points, return_inverse=True)
    builder = NameBuilder()
    # A character has a list of possible readings in its phrase; all but two of them have one, the first.
    readings = builder.encode([reading[0] for reading in chain.from_iterable(table.values())])
    classes, values = builder.freeze(np.array(readings, dtype=np.int64))
    return Sequences(
        tokens.astype(np.int64),
        np.fromiter(map(len, table), np.int64, len(table)),
        Names(tuple(map(chr, characters.tolist()))),
        Labels(values, "token", classes),
    )


def tiny_phrases() -> Sequences:
    """A few dozen well-known phrases, many of whose characters have two readings."""
    entries = [entry.split() for entry in _TINY_PHRASES.replace("\n", "|").split("|") if entry]
    return Sequences.of([characters for characters, *_ in entries], [readings for _, *readings in entries])
