package account

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/session"
)

func fullName(member map[string]any) any {
	first, _ := member["first_name"].(string)
	last, _ := member["last_name"].(string)
	return strings.TrimSpace(first + " " + last)
}

// memberState tells whether a member has joined and has access.
func memberState(member map[string]any) any {
	switch {
	case member["pending"] == true && isPast(member["expires_at"]):
		return "expired"
	case member["pending"] == true:
		return "pending"
	case member["disabled"] == true:
		return "disabled"
	}
	return "active"
}

func isPast(value any) bool {
	text, _ := value.(string)
	at, err := time.Parse(time.RFC3339, text)
	return err == nil && at.Before(time.Now())
}

// invitationPrefix begins the ids of members who have not joined yet.
const invitationPrefix = "inv_"

// revokeInvitation deletes an invitation. It refuses a member who has joined, who would lose API
// keys and consents.
func revokeInvitation(ctx context.Context, s *session.Session, in noun.Input) error {
	id, label := in.Path["member"], in.Labels["member"]
	if !strings.HasPrefix(id, invitationPrefix) {
		return &exit.Error{
			Code: exit.Conflict, Message: label + " is not invited: the member has joined already",
			Advice: fmt.Sprintf("Remove the member with `steward member delete %s`.", label),
		}
	}
	if err := s.Confirm(ctx, "Revoking the invitation of "+label); err != nil {
		return err
	}
	_, err := s.API.Send(ctx, session.Request{Method: http.MethodDelete, Path: in.Expand("/oidc/org/members/{member}")})
	if err != nil {
		return err
	}
	return s.Printer.Text("Revoked the invitation of %s. Its link is void.", label)
}
