"""`train_and_evaluate` for an Estimator in one process or in a group.

A group may have an evaluator or not.
"""

from __future__ import annotations

import contextlib
import logging
import os
from typing import Any

import tensorflow as tf

from akdl.engine import estimator_group
from akdl.tf_version import require_estimator

gfile = tf.io.gfile

_estimator = require_estimator("train_and_evaluate")

logger = logging.getLogger(__name__)


def train_and_evaluate(estimator: Any, train_spec: Any, eval_spec: Any) -> dict[str, Any] | None:
    """Train and evaluate like `tf.estimator.train_and_evaluate`.

    In a group of TF_CONFIG, evaluate and export on the chief.

    TensorFlow evaluates and exports a group in a process of the role `evaluator` only. The groups
    of an operator have no such process, so the chief evaluates the last checkpoint after the
    training and calls the exporters. If there is an evaluator, it alone calls them, and the chief's
    evaluation has the name `<name>_chief`.

    If nothing is left to train, TensorFlow does nothing; here the last checkpoint is evaluated and
    exported.

    Returns:
        The last evaluation; None in other roles than the chief. In a parameter server, this call
        does not return.
    """
    distributed = estimator_group.is_group(estimator.config)
    chief = estimator_group.is_chief(estimator.config)
    folders = ExportFolders(estimator)
    eval_spec = eval_spec._replace(
        hooks=(*eval_spec.hooks, estimator_group.RequireBatches()),
        exporters=[
            # A process alone has no evaluator next to it, so its exporters need no claim.
            _CheckedExporter(exporter, folders if distributed else None)
            for exporter in eval_spec.exporters
        ],
    )
    # A training without rows ends without an error, so the steps before and after it are compared.
    before = estimator_group.last_step(estimator) if chief else 0
    if not distributed:
        metrics = _estimator.train_and_evaluate(estimator, train_spec, eval_spec)[0]
        estimator_group.require_steps(estimator, before, train_spec.max_steps)
        # TensorFlow returns None if nothing was left to train.
        return _finish(estimator, eval_spec) if metrics is None else metrics
    if chief:
        # The claim of an earlier run must not decide who exports in this one.
        folders.release()
    estimator_group.train_in_group(estimator, train_spec, eval_spec)
    if not chief:
        return None
    estimator_group.require_steps(estimator, before, train_spec.max_steps)
    if not folders.claim():
        # An evaluator exports. The evaluation of the chief gets another name, since both would
        # write events into one folder.
        eval_spec = eval_spec._replace(
            name=f"{eval_spec.name}_chief" if eval_spec.name else "chief"
        )
    return _finish(estimator, eval_spec)


def _finish(estimator: Any, eval_spec: Any) -> dict[str, Any]:
    """Evaluate the last checkpoint, and call the exporters for it."""
    checkpoint = estimator.latest_checkpoint()
    found: dict[str, Any] = estimator.evaluate(
        eval_spec.input_fn, eval_spec.steps, eval_spec.hooks, checkpoint, name=eval_spec.name
    )
    # TensorFlow calls exporters in a process of the role evaluator only, so the chief calls them
    # here.
    for exporter in eval_spec.exporters:
        folder = os.path.join(estimator.model_dir, "export", exporter.name)
        exporter.export(estimator, folder, checkpoint, found, is_the_final_export=True)
    return found


class ExportFolders:
    """The right to write into the folders of the exporters.

    The first process of a group that claims it has it.

    The chief cannot detect an evaluator, which is not a part of the cluster. An evaluator claims
    before each of its exports, and the chief before its only export, after the training. The chief
    removes an older claim when it starts.
    """

    def __init__(self, estimator: Any) -> None:
        self._role = str(estimator.config.task_type)
        self._file = os.path.join(estimator.model_dir, "export_owner")

    def release(self) -> None:
        """Remove an older claim; the chief calls this when it starts."""
        if gfile.exists(self._file):
            gfile.remove(self._file)

    def claim(self) -> bool:
        """Claim the folders, and return whether this process's role has them, now or earlier."""
        # TensorFlow has no call for remote files that fails if the file exists. So two processes
        # may claim at the same moment, and the content that is read afterwards decides.
        if "://" in self._file:
            if not gfile.exists(self._file):
                with gfile.GFile(self._file, "w") as file:
                    file.write(self._role)
        else:
            with contextlib.suppress(FileExistsError), open(
                self._file, "x", encoding="utf-8"
            ) as file:
                file.write(self._role)
        try:
            with gfile.GFile(self._file) as file:
                return bool(file.read() == self._role)
        # A chief that starts has just removed the file, so the claim is repeated.
        except tf.errors.NotFoundError:
            return self.claim()


class _CheckedExporter(_estimator.Exporter):  # type: ignore[misc, name-defined]
    """Fails for a loss of NaN, and does nothing if another process has claimed the folders."""

    def __init__(self, exporter: Any, folders: ExportFolders | None) -> None:
        self._exporter = exporter
        self._folders = folders

    @property
    def name(self) -> str:
        return str(self._exporter.name)

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Any,
        is_the_final_export: bool,
    ) -> Any:
        estimator_group.require_number(eval_result)
        if self._folders is not None and not self._folders.claim():
            logger.info("%s: another process of the group exports", self.name)
            return None
        return self._exporter.export(
            estimator, export_path, checkpoint_path, eval_result, is_the_final_export
        )
