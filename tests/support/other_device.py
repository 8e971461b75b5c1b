"""Simulates a device other than the CPU on any machine, to test that code does not mix devices.

Its tensors wrap ordinary ones, which are used for all computations, but their device is `meta`. As
for tensors on a GPU, NumPy cannot read them, and operations that mix them with tensors on the CPU
are refused.
"""

from contextlib import contextmanager
from unittest.mock import patch

import torch as th
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

DEVICE = "meta"
# These accept tensors of the CPU together with others, also on GPUs.
_MIXED = ("copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_")


class Elsewhere(th.Tensor):
    """A tensor on the simulated device."""

    @staticmethod
    def __new__(cls, inner):
        return th.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
        )

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self, **_):
        return f"Elsewhere({self.inner})"

    def __deepcopy__(self, memo):
        copy = Elsewhere(self.inner.detach().clone()).requires_grad_(self.requires_grad)
        if isinstance(self, th.nn.Parameter):
            copy = th.nn.Parameter(copy, requires_grad=self.requires_grad)
        memo[id(self)] = copy
        return copy

    __torch_function__ = th._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = func._schema.name.split("::")[1]
        if name not in _MIXED and any(
            not isinstance(each, cls) and each.ndim for each in _tensors((args, kwargs))
        ):
            raise RuntimeError(f"{name}: tensors on the CPU and elsewhere")
        target = kwargs.get("device")
        if target is not None:
            kwargs["device"] = th.device("cpu")
        to_cpu = target is not None and th.device(target).type == "cpu"
        inside = name == "copy_" and not isinstance(args[0], cls)
        out = func(*_mapped(_inner, args), **_mapped(_inner, kwargs))
        if to_cpu:
            return out
        if inside:
            return args[0]
        out = _mapped(lambda each: cls(each) if isinstance(each, th.Tensor) else each, out)
        return return_and_correct_aliasing(func, args, kwargs, out)


def _inner(value):
    return value.inner if isinstance(value, Elsewhere) else value


# As in torch.utils._pytree, for what operations take and return; several times as fast.
def _tensors(value):
    if isinstance(value, th.Tensor):
        yield value
    elif isinstance(value, list | tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _tensors(each)


def _mapped(function, value):
    if isinstance(value, dict):
        return {name: _mapped(function, each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_mapped(function, each) for each in value])
    return function(value)


class _Send(th.autograd.Function):
    @staticmethod
    def forward(_ctx, tensor):
        return Elsewhere(tensor.detach().clone())

    @staticmethod
    def backward(_ctx, gradient):
        return _inner(gradient)


class _Fetch(th.autograd.Function):
    @staticmethod
    def forward(_ctx, tensor):
        return tensor.inner.detach().clone()

    @staticmethod
    def backward(_ctx, gradient):
        return Elsewhere(gradient)


def _is_there(value):
    if isinstance(value, str | th.device):
        try:
            return th.device(value).type == DEVICE
        except RuntimeError:
            return False
    return False


def _is_device(value):
    return isinstance(value, th.device) or value in ("cpu", DEVICE)


class _Mode(TorchFunctionMode):
    """Creates tensors on the simulated device when requested."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is th.Tensor.to:
            return self._to(args, kwargs)
        if func is th.Tensor.cpu:
            return _Fetch.apply(args[0]) if isinstance(args[0], Elsewhere) else func(*args)
        if func is th.Tensor.numpy and isinstance(args[0], Elsewhere):
            raise TypeError("can't convert a tensor on another device to numpy")
        if func is th.Tensor.tolist and isinstance(args[0], Elsewhere):
            return args[0].inner.tolist()
        if _is_there(kwargs.get("device")):
            if args and isinstance(args[0], Elsewhere):
                if func is not th.as_tensor:
                    return func(*args, **kwargs)
                kwargs.pop("device")
                return args[0].to(**kwargs)
            kwargs["device"] = "cpu"
            out = func(*args, **kwargs)
            made = Elsewhere(out.detach().clone())
            return made.requires_grad_() if out.requires_grad else made
        return func(*args, **kwargs)

    def _to(self, args, kwargs):
        tensor, *rest = args
        like = [each for each in rest if isinstance(each, th.Tensor)]
        if like:
            rest = [like[0].device, like[0].dtype, *[e for e in rest if e is not like[0]]]
        devices = [each for each in (*rest, kwargs.get("device")) if _is_there(each)]
        target_named = bool(devices) or any(
            isinstance(e, str | th.device) for e in (*rest, kwargs.get("device"))
        )
        rest = [e for e in rest if not isinstance(e, str | th.device) and e is not None]
        kwargs.pop("device", None)
        kwargs.pop("non_blocking", None)
        rest = [e for e in rest if not isinstance(e, bool)]
        there = isinstance(tensor, Elsewhere)
        if devices and not there:
            tensor = _Send.apply(tensor)
        elif target_named and not devices and there:
            tensor = _Fetch.apply(tensor)
        return th.Tensor.to(tensor, *rest, **kwargs) if rest or kwargs else tensor


class _Constants(TorchDispatchMode):
    """Moves tensors that torch creates from numbers, as in `where(condition, tensor, 0.0)`."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if not _is_there(kwargs.get("device")) or next(_tensors(args), None) is not None:
            return func(*args, **kwargs)
        kwargs["device"] = th.device("cpu")
        return Elsewhere(func(*args, **kwargs))


@contextmanager
def other_device():
    """Context in which `DEVICE` is a simulated device other than the CPU."""
    with _Mode(), _Constants(), patch("torch.optim.adam._device_dtype_check_for_fused"):
        yield DEVICE
