"""LeaveGroup (13): members go, so that the others need not wait for their sessions to end.

v0 to v2: one member, its error is the request's. v3: several, also by group instance id (KIP-345),
each with its error. v5: reason.
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, its_group
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


@api(
    LeaveGroupRequest,
    ForRequest(AclOperation.READ, its_group),
    parts=Parts("members", "members"),
)
def handle(ctx: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Remove the members named."""
    leaving = request.members
    if ctx.api_version < 3:
        leaving = [LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]
    error, codes = ctx.services.groups.leave_group(request.group_id, leaving)
    if ctx.api_version < 3:
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
