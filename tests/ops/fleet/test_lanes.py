"""The picture of a herd."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from stampede_guard.ops.fleet.herds import HerdMark, HerdSpan, herds
from stampede_guard.ops.fleet.lanes import DrawnLane, Panel, drawn, panel_of
from tests.ops.fleet.test_herds import computed, line, waited

SVG = "{http://www.w3.org/2000/svg}"


def test_a_herd_is_drawn_with_a_lane_per_worker_and_a_title_for_each_mark() -> None:
    (herd,) = herds(
        [*computed("pod/host/101"), *waited("pod/host/102"), line(0.2, "pod/host/101", "renewed")]
    )
    picture = drawn([panel_of(herd)], told="one herd", legend=False)
    root = ET.fromstring(picture)
    assert root.attrib["aria-label"] == "one herd"
    assert picture.count('class="lane"') == 2
    for kind in ("compute", "granted", "renewed", "published", "woken"):
        (mark,) = [one for one in root.iter() if one.attrib.get("class") == kind]
        assert mark.find(f"{SVG}title") is not None
    assert "shop.quality: 5 callers, 1 computation" in picture
    assert not re.search(r"<script|style=|on\w+=|https?://(?!www\.w3\.org)", picture)


def test_without_its_style_the_picture_has_classes_only() -> None:
    lane = DrawnLane("worker", [HerdSpan("wait", 0.0, None)])
    picture = drawn([Panel("t", [lane], 0.0)], told="", styled=False)
    assert "<style" not in picture and 'class="wait open"' in picture
    assert "to ?" in picture, "its end is not known"


def test_hostile_words_are_texts() -> None:
    hostile = '</svg><script>alert("1")</script>\x00\ud800'
    lane = DrawnLane(hostile, [HerdSpan("compute", 0.0, 1.0)], [HerdMark(0.5, "taken over", hostile)])
    picture = drawn([Panel(hostile, [lane], 1.0)], told=hostile)
    ET.fromstring(picture.encode())
    assert "<script" not in picture


def test_the_scale_fits_herds_of_any_length() -> None:
    for seconds in (0.0, 0.001, 0.3, 7.0, 400.0):
        picture = drawn([Panel("t", [DrawnLane("w", [HerdSpan("wait", 0.0, seconds)])], seconds)], told="")
        ticks = [one for one in ET.fromstring(picture).iter(f"{SVG}text") if "ms" in (one.text or "")]
        assert len(ticks) <= 10


def test_no_two_ticks_of_an_axis_have_the_same_text() -> None:
    for seconds in (0.001, 0.0031, 0.004, 0.0081, 0.0101, 0.3, 0.96, 1.01, 7.0, 400.0):
        picture = drawn([Panel("t", [DrawnLane("w", [])], seconds)], told="", legend=False)
        found = re.findall(r">([0-9.]+ m?s)</text>", picture)
        assert len(found) == len(set(found)) > 1, found
