"""LeaveGroup (13): members go, so that the others need not wait for their sessions to end.

v0 to v2: one member, its error is the request's. v3: several, also by group instance id (KIP-345),
each with its error. v5: reason.
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, its_group
from kbroker.apis.context import RequestContext
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


@api(
    LeaveGroupRequest,
    ForRequest(AclOperation.READ, its_group),
    parts=Parts("members", "members"),
)
def handle(ctx: RequestContext, request: LeaveGroupRequest) -> NowOrLater[LeaveGroupResponse]:
    """Remove the members named."""
    leaving = request.members
    if ctx.api_version < 3:
        leaving = [LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]
    outcome = ctx.services.groups.leave_group(request.group_id, leaving)
    return then(outcome, _response, leaving, ctx.api_version)


def _response(
    outcome: tuple[ErrorCode, list[ErrorCode]],
    leaving: list[LeaveGroupRequest.MemberIdentity],
    version: int,
) -> LeaveGroupResponse:
    error, codes = outcome
    if version < 3:
        return LeaveGroupResponse(error_code=int(codes[0] if codes else error))
    return LeaveGroupResponse(
        error_code=int(error),
        members=[
            LeaveGroupResponse.MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=int(code),
            )
            for member, code in zip(leaving, codes, strict=False)  # no codes after a refusal
        ],
    )
