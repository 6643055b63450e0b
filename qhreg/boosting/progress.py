"""A progress bar over the stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from qhreg.boosting.stage import StageFit

__all__ = ["progress"]


@contextmanager
def progress(total: int, shown: bool) -> Iterator[Callable[[StageFit], None] | None]:
    """Give a function to call after each stage, which moves a bar, or None when none is shown.

    The bar is tqdm's, on the standard error stream.
    """
    if not shown:
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("verbose needs tqdm: install it with `pip install tqdm`") from error
    with tqdm(total=total, desc="boosting") as bar:

        def after_stage(fit: StageFit) -> None:
            bar.update()
            bar.set_postfix(tau=f"{fit.noise.tau:.3f}", loss=f"{fit.value:.4f}", refresh=False)

        yield after_stage
