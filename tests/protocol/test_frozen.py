"""``@frozen`` behaves as ``attrs.frozen``, but attrs completes a class at its first use."""

import inspect
import pickle
from typing import ClassVar

import attrs
import pytest
from attrs.exceptions import FrozenInstanceError

from kemu.protocol.frozen import define, evolve, frozen, frozen_fields, is_frozen


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


@pytest.mark.parametrize("kw_only", [False, True])
def test_plain_fields_need_no_attrs_and_take_the_same_arguments(kw_only):
    """The constructor of a class without ``attrs.field`` is not compiled for the class."""

    def declare(decorator):
        @decorator(kw_only=kw_only)
        class Plain:
            text: str
            size: int = 1
            more: tuple[int, ...] = ()

        return Plain

    ours, of_attrs = declare(frozen), declare(attrs.frozen)
    first = ours(text="a", more=(2,))

    assert (first.text, first.size, first.more) == ("a", 1, (2,))
    assert first == ours(text="a", size=1, more=(2,)) and first != ours(text="b")
    assert repr(first).endswith("Plain(text='a', size=1, more=(2,))")
    assert not isinstance(vars(ours)["__init__"], type(vars(ours)["__attrs_attrs__"])), "made at the first instance"
    assert type(vars(ours)["__attrs_attrs__"]).__name__ == "_Later", "attrs was not asked"
    assert inspect.signature(ours) == inspect.signature(of_attrs)
    assert ours.__init__.__annotations__ == of_attrs.__init__.__annotations__
    for wrong in ({}, {"text": "a", "z": 1}):
        with pytest.raises(TypeError) as of_ours:
            ours(**wrong)
        with pytest.raises(TypeError) as of_theirs:
            of_attrs(**wrong)
        assert str(of_ours.value).rpartition("Plain.")[2] == str(of_theirs.value).rpartition("Plain.")[2]
    assert attrs.evolve(first, size=3) == ours(text="a", size=3, more=(2,))
    assert [each.default for each in attrs.fields(ours)] == [attrs.NOTHING, 1, ()]


def test_classes_with_rare_fields_are_made_by_attrs():
    """Private names, a required field after a default, fields of a base."""

    @frozen
    class Private:
        _x: int = 1

    @frozen
    class Derived(Kept):
        more: int = 0

    @frozen
    class Wrong:
        x: int = 1
        y: int

    assert Private(x=2) == Private(2)
    assert Derived("a", 2, 3) == Derived(text="a", size=2, more=3)
    with pytest.raises(ValueError, match="No mandatory attributes allowed"):
        Wrong(1, 2)


def test_a_field_of_attrs_with_a_default_and_metadata_is_plain_and_others_are_not():
    """Messages have fields with metadata. A field that validates its value, or makes its default from the instance, is
    the work of attrs.
    """

    @frozen
    class Fields:
        text: str
        size: int = attrs.field(default=1, metadata={"since": 3})

    assert [(each.name, each.default, each.metadata) for each in frozen_fields(Fields)] == [
        ("text", attrs.NOTHING, {}),
        ("size", 1, {"since": 3}),
    ]
    assert (Fields("a").size, Fields("a", 2).size) == (1, 2)
    assert type(vars(Fields)["__attrs_attrs__"]).__name__ == "_Later", "attrs was not asked"
    for declared in (
        attrs.field(default=attrs.Factory(id, takes_self=True)),
        attrs.field(default=1, converter=attrs.Converter(str)),
        attrs.field(default=1, validator=attrs.validators.ge(0)),
        attrs.field(default=1, init=False),
        attrs.field(default=1, alias="other"),
    ):

        @frozen
        class Other:
            value: object = declared

        assert Other() is not None
        assert type(vars(Other)["__attrs_attrs__"]).__name__ != "_Later", declared


@pytest.mark.parametrize("kw_only", [False, True])
def test_a_factory_makes_each_default_as_with_attrs(kw_only):
    """A default of its own for each instance, in the order of the fields; the signature shows what attrs shows."""
    made: list[str] = []

    class Fields:
        text: str
        first: list[int] = attrs.field(factory=lambda: [made.append("first")])
        size: int = 3
        second: list[int] = attrs.Factory(lambda: [made.append("second")])

    ours, of_attrs = frozen(kw_only=kw_only)(Fields), attrs.frozen(kw_only=kw_only)(Fields)

    one, other = ours(text="a"), ours(text="a")
    assert made == ["first", "second"] * 2
    assert one == other
    assert one.first is not other.first
    assert ours(text="a", first=made, second=None).first is made
    assert ours(text="a", second=None).second is None
    assert inspect.signature(ours) == inspect.signature(of_attrs)
    assert type(vars(ours)["__attrs_attrs__"]).__name__ == "_Later", "attrs was not asked"
    assert [each.default for each in attrs.fields(ours)] == [each.default for each in attrs.fields(of_attrs)]


def test_a_changed_copy_of_a_plain_value_is_that_of_attrs():
    point = Kept("a")

    assert evolve(point, size=3) == attrs.evolve(Kept("a"), size=3) == Kept("a", 3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'more'"):
        evolve(point, more=1)


def test_fields_that_convert_and_classes_that_check_need_no_attrs():
    """Keys of a scenario: converted values and defaults, keywords after places, a check of the whole, and an own
    ``__init__``.
    """
    made: list[str] = []

    def doubled(number: int | str) -> int:
        made.append(str(number))
        return 2 * int(number)

    def declare(decorator):
        @decorator
        class Checked:
            text: str
            size: int = attrs.field(default="3", converter=doubled, kw_only=True)
            parts: tuple[int, ...] = attrs.field(factory=list, converter=tuple, metadata={"key": 1})
            rest: tuple[int, ...] = attrs.field(default=None, converter=attrs.converters.optional(tuple))

            def __attrs_post_init__(self):
                if not self.size:
                    raise ValueError("no size")

        @decorator(init=False)
        class Own:
            words: tuple[str, ...]
            size: int = attrs.field(default=1, kw_only=True)

            def __init__(self, *words: str) -> None:
                self.__attrs_init__(words, size=len(words))

        return Checked, Own

    (checked, own), (checked_of_attrs, own_of_attrs) = declare(frozen), declare(attrs.frozen)
    for first, of_attrs in ((checked, checked_of_attrs), (own, own_of_attrs)):
        assert inspect.signature(first) == inspect.signature(of_attrs)
        assert first.__init__.__annotations__ == of_attrs.__init__.__annotations__
    assert inspect.signature(own.__attrs_init__) == inspect.signature(own_of_attrs.__attrs_init__)
    for one, of_one in ((checked, own), (checked_of_attrs, own_of_attrs)):
        made.clear()
        first = one("a", [1, 2], size="4")
        assert (first.text, first.size, first.parts, first.rest) == ("a", 8, (1, 2), None)
        assert (one("a").size, one("a").parts, evolve(first, rest=[7]).rest) == (6, (), (7,))
        assert made == ["4", "3", "3", "8"]
        with pytest.raises(ValueError, match="no size"):
            one("a", size=0)
        with pytest.raises(TypeError, match="takes from 2 to 4 positional arguments"):
            one("a", (), (), 4)
        assert (of_one("a", "b").words, of_one("a", "b").size) == (("a", "b"), 2)
    for ours in (checked, own):
        assert type(vars(ours)["__attrs_attrs__"]).__name__ == "_Later", "attrs was not asked"
        of_attrs = [(each.name, each.type, each.default, each.metadata, each.kw_only) for each in attrs.fields(ours)]
        assert [each[:4] + each[5:] for each in frozen_fields(ours)] == of_attrs


@pytest.mark.parametrize("decorator", [define, attrs.define])
def test_a_mutable_class_behaves_as_one_of_attrs(decorator):
    """The same assertions hold for ``attrs.define``."""

    @decorator
    class Account:
        name: str
        counts: list[int] = attrs.field(factory=list)
        total: int = attrs.field(init=False)

        def __attrs_post_init__(self):
            self.total = sum(self.counts)

    @decorator
    class Plain:
        name: str
        size: int = 1

    @decorator
    class Empty:
        pass

    first, plain = Account("a", [1, 2]), Plain("b")
    plain.size += 1

    assert (first.total, Account("b").counts, plain.size) == (3, [], 2)
    assert first == Account("a", [1, 2]) != Account("a") and plain == Plain(name="b", size=2) and Empty() == Empty()
    assert repr(plain).endswith("Plain(name='b', size=2)") and plain != ("b", 2)
    assert str(inspect.signature(Plain)) == "(name: str, size: int = 1) -> None"
    with pytest.raises(TypeError, match="unhashable"):
        hash(plain)
    with pytest.raises(AttributeError):
        plain.other = 1
    assert not is_frozen(Plain)
