"""Vectors for numba: `width` numbers that move together, in registers. Plain numba cannot say this; LLVM fits it to any machine's vectors.

Arrays are C-contiguous; `at` counts numbers from the array's first, unchecked and never negative (numba's own indexing would test for
wrap-around in the innermost loop). Sums and products may be contracted to fused multiply-adds.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

__all__ = ["Lanes", "add", "fill", "fma", "load", "mul", "scale", "store", "sub"]


class Lanes(types.Type):
    """The numba type of a vector."""

    def __init__(self, number: Any, width: int) -> None:
        self.number, self.width = number, width
        super().__init__(f"Lanes({number}, {width})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, ir.VectorType(manager[lanes.number].get_value_type(), lanes.width))


def _place(context: Any, builder: Any, array: Any, value: Any, at: Any) -> Any:
    return builder.gep(context.make_array(array)(context, builder, value).data, [at])


def _spread(builder: Any, number: Any, width: int) -> Any:
    one = builder.insert_element(ir.Constant(ir.VectorType(number.type, width), ir.Undefined), number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width))


@intrinsic(prefer_literal=True)
def load(typing: Any, array: Any, at: Any, width: Any) -> Any:
    """array[at : at + width]"""
    lanes = Lanes(array.dtype, width.literal_value)

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = _place(context, builder, array, *args[:2])
        return builder.load(builder.bitcast(place, context.get_value_type(lanes).as_pointer()), align=4)

    return lanes(array, types.intp, width), emit


@intrinsic
def store(typing: Any, array: Any, at: Any, lanes: Any) -> Any:
    """array[at : at + width] = lanes"""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], builder.bitcast(_place(context, builder, array, *args[:2]), args[2].type.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), emit


@intrinsic(prefer_literal=True)
def fill(typing: Any, number: Any, width: Any) -> Any:
    """`width` copies of a number"""
    lanes = Lanes(number, width.literal_value)
    return lanes(number, width), lambda context, builder, sig, args: _spread(builder, args[0], lanes.width)


@intrinsic
def fma(typing: Any, total: Any, lanes: Any, array: Any, at: Any) -> Any:
    """total + lanes * array[at]"""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        number = _spread(builder, builder.load(_place(context, builder, array, *args[2:])), lanes.width)
        return builder.fadd(args[0], builder.fmul(args[1], number, flags=("contract",)), flags=("contract",))

    return lanes(lanes, lanes, array, types.intp), emit


@intrinsic
def scale(typing: Any, lanes: Any, number: Any) -> Any:
    """lanes * number"""
    return lanes(lanes, lanes.number), lambda context, builder, sig, args: builder.fmul(args[0], _spread(builder, args[1], lanes.width))


def _each(name: str) -> Any:
    return intrinsic(
        lambda typing, lanes, others: (
            lanes(lanes, lanes),
            lambda context, builder, sig, args: getattr(builder, name)(*args, flags=("contract",)),
        )
    )


add, sub, mul = _each("fadd"), _each("fsub"), _each("fmul")
