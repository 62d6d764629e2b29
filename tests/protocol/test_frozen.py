"""``@frozen`` behaves as ``attrs.frozen``, but attrs completes a class at its first use."""

import pickle
from typing import ClassVar

import attrs
import pytest
from attrs.exceptions import FrozenInstanceError

from kemu.protocol.frozen import frozen


def declared(decorator):
    """The same two classes under a decorator."""

    @decorator
    class Point:
        scale: ClassVar[int] = 3
        x: int
        y: int = attrs.field(default=2, converter=int)

        def doubled(self):
            return attrs.evolve(self, x=2 * self.x)

        def __str__(self):
            return f"at {self.x}"

    @decorator(kw_only=True)
    class Named(Point):
        name: str = "p"
        tags: list[str] = attrs.Factory(list)

        def __str__(self):
            return f"{self.name} {super().__str__()}"

    return Point, Named


@frozen
class Kept:
    """A class that pickle finds."""

    text: str
    size: int = 1


@pytest.mark.parametrize("decorator", [frozen, attrs.frozen])
def test_a_class_behaves_as_one_of_attrs(decorator):
    """The same assertions hold for ``attrs.frozen``."""
    point_class, named_class = declared(decorator)
    point = point_class(1, "7")

    assert (point.x, point.y, point_class.scale) == (1, 7, 3)
    assert (
        point == point_class(1, 7) and point != point_class(1, 8) and point != named_class(x=1, y=7) and point != (1, 7)
    )
    assert hash(point) == hash(point_class(1, 7))
    assert repr(point).endswith("Point(x=1, y=7)")
    assert attrs.asdict(point.doubled()) == {"x": 2, "y": 7}
    assert not hasattr(point, "__dict__")
    match point:
        case point_class(x, y):
            assert (x, y) == (1, 7)
    named = named_class(x=4)
    assert str(named) == "p at 4"
    assert [each.name for each in attrs.fields(named_class)] == ["x", "y", "name", "tags"]
    assert repr(named).endswith("Named(x=4, y=2, name='p', tags=[])")
    for change in (lambda: setattr(point, "x", 2), lambda: delattr(point, "x"), lambda: setattr(point, "new", 2)):
        with pytest.raises(FrozenInstanceError):
            change()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        point_class(1, z=2)


def test_attrs_completes_a_class_at_its_first_use():
    """Until then the class has no compiled method: that is the time it saves."""
    made = []

    def count(cls, fields):
        made.append(cls.__name__)
        return fields

    @frozen(field_transformer=count)
    class Once:
        x: int

    assert made == []
    assert Once(1) == Once(1)
    assert attrs.has(Once)
    assert made == ["Once"]


def test_values_cross_processes():
    """Workers of ``--jobs`` send results by pickle."""
    assert pickle.loads(pickle.dumps(Kept("a", 2))) == Kept("a", 2)
