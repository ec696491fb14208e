"""The branch of a statement on a table that is audited before it is published: spark.wap.branch and spark.wap.id.

Only tables with the property `lance.wap.enabled` heed these settings. With a branch all reads and writes of the session
go to it; with an id, writes go to a branch of their own until `publish_changes`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.access import find_table
from lance_spark.spark.connector.catalog.resolve import ResolvedTable
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Session
from lance_spark.table.dataset import Dataset
from lance_spark.table.publishing.publish import branch_for_writes, staging_branch
from lance_spark.table.versions.known_properties import WAP_ENABLED


@dataclass(frozen=True, slots=True)
class AuditedPlace:
    """The place of a table for a statement.

    Attributes:
        is_writable: whether a statement that was not known to write when the place was chosen may write there.
    """

    place: ResolvedTable
    is_writable: bool = True


def audited_place(place: ResolvedTable, session: Session, *, writes: bool, is_newest: bool = True) -> AuditedPlace:
    """The place that the settings of the session choose; `place` for other tables. Makes the branch of a first write.

    Args:
        writes: whether the statement writes to the table.
        is_newest: whether it reads the newest version; older ones are those of the branch that it names.

    Raises:
        InvalidInputError: both settings are set, or the statement names another branch than they do.
    """
    branch, wap_id = session.wap_branch, session.wap_id
    if (not branch and not wap_id) or not is_newest or not _is_audited(place):
        return AuditedPlace(place)
    if branch and wap_id:
        raise InvalidInputError("spark.wap.branch and spark.wap.id are both set; unset one of them")
    if wap_id and not writes:
        return AuditedPlace(place, is_writable=False)
    chosen = branch or staging_branch(wap_id or "")
    setting = f"spark.wap.branch = {branch}" if branch else f"spark.wap.id = {wap_id}"
    if place.branch not in (None, chosen):
        raise InvalidInputError(
            f"the statement names branch {place.branch!r} of {place.shown()}, and the session has {setting}; name the "
            "same branch, or unset the setting"
        )
    if place.branch is None and chosen == "main":
        return AuditedPlace(place)
    location = replace(place, branch=None).location()
    if writes:
        branch_for_writes(location, chosen)
    elif chosen not in location.refs.branches():
        return AuditedPlace(place, is_writable=False)
    return AuditedPlace(replace(place, branch=chosen))


def _is_audited(place: ResolvedTable) -> bool:
    main = find_table(replace(place, branch=None).location())
    return isinstance(main, Dataset) and main.config.get(WAP_ENABLED, "").strip().lower() == "true"


def audited_handle(handle: TableHandle, session: Session) -> TableHandle:
    """The handle of a table to write to, which a statement has loaded to read: the branch that the session chooses.

    Raises: as `audited_place`.
    """
    if handle.partitioned or handle.staged is not None:
        return handle
    place = ResolvedTable(handle.uri, handle.storage_options, handle.branch, handle.name)
    branch = audited_place(place, session, writes=True).place.branch
    if branch == handle.branch:
        return handle
    newest = replace(place, branch=branch).location().newest()
    return replace(handle, branch=branch, version=newest.version, timestamp_nanos=newest.timestamp_nanos)
