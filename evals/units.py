r"""What stands behind a number: its unit, a noun, a word that multiplies it, or a word that makes it another answer.

In: an answer such as `5\text{ cm}`, `2.5万元`, `18 eggs`. Out: the number's part, and the unit's name ("cm").
Units are left out of the comparison as in every harness, but two that are both known must be the same: 5 m is not 5 cm.
"""

import re

# The first word of each line is the unit's name, the others are written for it.
_TABLE = """
m meter meters metre metres 米
cm centimeter centimeters centimetre centimetres 厘米
mm millimeter millimeters millimetre millimetres 毫米
dm decimeter decimeters 分米
km kilometer kilometers kilometre kilometres 千米 公里
ft foot feet 英尺
in inch inches 英寸
mile mi miles 英里
yard yd yards
g gm gram grams 克
kg kilogram kilograms 千克 公斤
mg milligram milligrams 毫克
ton tons tonne tonnes 吨
pound pounds lb lbs
ounce ounces oz
s sec secs second seconds 秒
min mins minute minutes 分钟
h hr hrs hour hours 小时
day days 天
week weeks 周
month months 个月
year years yr yrs 年
l L liter liters litre litres 升
ml mL milliliter milliliters millilitre millilitres 毫升
dollar dollars usd USD 美元
cent cents 美分
yuan RMB rmb 元
角 毛
euro euros
degree degrees 度
"""
_NAMES = {word: line.split()[0] for line in _TABLE.strip().splitlines() for word in line.split()}
_WORDS_BESIDE = "square cubic sq cu per of mph kph unit units people students way ways"
# Behind these a number is no longer the answer that it was: "5 or more", "2 sin".
_WORDS_OTHERWISE = """
or and not but more less fewer greater least most than above below between approximately maybe either half third
quarter quarters thirds halves dozen minus plus times over squared cubed choose mod modulo base factorial sin cos tan
log sqrt wrong incorrect false hundred thousand million billion trillion negative
"""
_BESIDE, _OTHERWISE = (frozenset(words.split()) for words in (_WORDS_BESIDE, _WORDS_OTHERWISE))
_BOX = r"\\(?:text|textbf|textnormal|textrm|textit|mbox|mathrm|mathbf)\s*\{([^{}]*)\}"
_POWER = r"(?:\^\{?[23]\}?)?$"
_BOXED = re.compile(rf"(?:(?<=[\d}}%)])|(?<=\\pi))\s*{_BOX}{_POWER}")
_PLAIN = re.compile(rf"(?<=[\d}}%)])([a-zA-Z./\s]*){_POWER}")
_CHINESE = re.compile(rf"(?<=[\d}}%])\s*([\u4e00-\u9fff/]{{1,7}}){_POWER}")
_NO_CHINESE_UNIT = re.compile(r"千(?![米克瓦卡])|百(?!分)|[十万亿几多半又或和与至到]")
_TENS = dict(hundred=2, thousand=3, million=6, billion=9, trillion=12) | dict(
    zip("十百千万亿", (1, 2, 3, 4, 8), strict=True)
)
_FACTOR = re.compile(
    r"(?<=\d)\s*(?:\\text\s*\{\s*)?((?:hundred|thousand|million|billion|trillion)\b|万亿|[百千十]?[万亿]|"
    r"千(?![米克瓦卡])|百(?!分))"
)


def multiplied(s: str) -> str:
    r"""`1.45 million` -> `1.45*10^6`, `100万元` -> `100*10^4元`."""

    def power(m: re.Match[str]) -> str:
        tens = _TENS.get(m[1]) or sum(_TENS[c] for c in m[1])  # 百万
        return f"*10^{tens}" + (r"\text{" if r"\text" in m[0] else "")

    return _FACTOR.sub(power, s)


def split_unit(s: str) -> tuple[str, str, bool]:
    """(`s` without its unit, the unit's name or "", whether a unit was there). Letters that may be variables stay."""
    for pattern, accepts in ((_BOXED, _unit_in_box), (_CHINESE, _unit_in_chinese), (_PLAIN, _unit_in_words)):
        unit = pattern.search(s)
        if unit and unit[1].strip(" ./") and accepts(s[: unit.start()], unit[1]):
            if re.fullmatch(r"[a-zA-Z]\^.*", unit[0]) and unit[1] != "m":
                continue  # 3s^2
            return s[: unit.start()].rstrip(), _name(unit[1]), True
    return s, "", False


def _name(unit: str) -> str:
    """The name of the one unit in it; none for a compound such as "miles per hour"."""
    words = re.findall(r"[a-zA-Z]+", unit) or [re.sub("平方|立方", "", unit)]
    names = {_NAMES[w] for i, w in enumerate(words) if w in _NAMES and (w != "in" or i + 1 == len(words))}
    return names.pop() if len(names) == 1 and "/" not in unit and "per" not in words else ""


def _unit_in_box(_before: str, content: str) -> bool:
    words = re.findall(r"[^\s./]+", content)
    return not _OTHERWISE.intersection(words) and all(_known(w) or (len(w) > 1 and w.isalpha()) for w in words)


def _unit_in_chinese(_before: str, unit: str) -> bool:
    return _NO_CHINESE_UNIT.search(unit) is None


def _unit_in_words(before: str, unit: str) -> bool:
    """Known units may stand close to the number, nouns may not (`2abc`); a lone letter is often a variable (`6+9h`)."""
    words = re.findall(r"[a-zA-Z]+", unit)
    if _OTHERWISE.intersection(words) or not (unit[0].isspace() or _known(words[0])):
        return False
    if len(words) == 1 and len(words[0]) == 1 and not re.fullmatch(r"-?[\d.,/ ]+|-?\\frac\{?\d+\}?\{?\d+\}?", before):
        return words[0] in _NAMES and unit[0].isspace() and not re.search(r"[+-]", before[1:])
    return (_known(words[0]) or len(words[0]) > 3) and all(_known(w) or len(w) > 2 for w in words)


def _known(word: str) -> bool:
    return word in _NAMES or word in _BESIDE
