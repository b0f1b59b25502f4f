package eval

import (
	"strconv"

	"steward/internal/encode"
	"steward/internal/stamp"
)

// AppendJSON implements encode.Appender.
func (e Eval) AppendJSON(to []byte) ([]byte, error) {
	to = encode.String(append(to, `{"id":`...), e.ID)
	to = encode.String(append(to, `,"name":`...), e.Name)
	to = encode.Optional(append(to, `,"description":`...), e.Description)
	to = encode.Optional(append(to, `,"identifier":`...), e.Identifier)
	to = encode.String(append(to, `,"agentIdentifier":`...), e.AgentIdentifier)
	to = encode.String(append(to, `,"orgId":`...), e.OrgID)
	to = encode.String(append(to, `,"projectId":`...), e.ProjectID)
	to = appendIfSet(to, `,"deploymentId":`, e.DeploymentID)
	to = appendIfSet(to, `,"version":`, e.Version)
	to = appendIfSet(to, `,"filename":`, e.Filename)
	to = strconv.AppendBool(append(to, `,"devmode":`...), e.Devmode)
	to = appendTime(append(to, `,"createdAt":`...), e.CreatedAt)
	to = appendTime(append(to, `,"updatedAt":`...), e.UpdatedAt)
	return append(to, '}'), nil
}

// MarshalJSON implements json.Marshaler.
func (e Eval) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// AppendJSON implements encode.Appender. The result is appended as it is stored, which is compact.
func (r Run) AppendJSON(to []byte) ([]byte, error) {
	to = encode.String(append(to, `{"id":`...), r.ID)
	to = encode.String(append(to, `,"sessionId":`...), r.SessionID)
	to = encode.String(append(to, `,"evalId":`...), r.EvalID)
	to = encode.Optional(append(to, `,"evalIdentifier":`...), r.EvalIdentifier)
	to = encode.Optional(append(to, `,"evalName":`...), r.EvalName)
	to = encode.Optional(append(to, `,"agentIdentifier":`...), r.AgentIdentifier)
	to = encode.String(append(to, `,"orgId":`...), r.OrgID)
	to = encode.String(append(to, `,"projectId":`...), r.ProjectID)
	to = encode.Optional(append(to, `,"deploymentId":`...), r.DeploymentID)
	to = appendIfSet(to, `,"spanId":`, r.SpanID)
	to = strconv.AppendBool(append(to, `,"devmode":`...), r.Devmode)
	to = strconv.AppendBool(append(to, `,"pending":`...), r.Pending)
	to = strconv.AppendBool(append(to, `,"success":`...), r.Success)
	to, _ = encode.Value(append(to, `,"passed":`...), r.Passed)
	to, _ = encode.Value(append(to, `,"score":`...), r.Score) // finite numbers can always be encoded
	to = encode.Optional(append(to, `,"error":`...), r.Error)
	to = appendRaw(append(to, `,"result":`...), r.Result)
	if r.ResultOmitted {
		to = append(to, `,"result_omitted":true`...)
	}
	if r.Truncated {
		to = append(to, `,"truncated":true`...)
	}
	to = appendTime(append(to, `,"createdAt":`...), r.CreatedAt)
	to = appendTime(append(to, `,"updatedAt":`...), r.UpdatedAt)
	return append(to, '}'), nil
}

// MarshalJSON implements json.Marshaler.
func (r Run) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// appendIfSet appends a field unless its text is nil.
func appendIfSet(to []byte, name string, text *string) []byte {
	if text == nil {
		return to
	}
	return encode.String(append(to, name...), *text)
}

func appendTime(to []byte, at stamp.Time) []byte {
	to = append(to, '"')
	to = at.Append(to)
	return append(to, '"')
}

// appendRaw appends JSON, or null.
func appendRaw(to, text []byte) []byte {
	if len(text) == 0 {
		return append(to, "null"...)
	}
	return append(to, text...)
}
