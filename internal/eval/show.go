package eval

import (
	"strconv"

	"steward/internal/encode"
)

// AppendJSON writes what encoding/json would.
func (e Eval) AppendJSON(to []byte) ([]byte, error) {
	to = encode.String(append(to, `{"id":`...), e.ID)
	to = encode.String(append(to, `,"name":`...), e.Name)
	to = encode.Optional(append(to, `,"description":`...), e.Description)
	to = encode.Optional(append(to, `,"identifier":`...), e.Identifier)
	to = encode.String(append(to, `,"agentIdentifier":`...), e.AgentIdentifier)
	to = encode.String(append(to, `,"orgId":`...), e.OrgID)
	to = encode.String(append(to, `,"projectId":`...), e.ProjectID)
	to = appendField(to, `,"deploymentId":`, e.DeploymentID)
	to = appendField(to, `,"version":`, e.Version)
	to = appendField(to, `,"filename":`, e.Filename)
	to = strconv.AppendBool(append(to, `,"devmode":`...), e.Devmode)
	to = e.CreatedAt.Append(append(to, `,"createdAt":"`...))
	to = e.UpdatedAt.Append(append(to, `","updatedAt":"`...))
	return append(to, `"}`...), nil
}

// MarshalJSON is AppendJSON for those who do not know it.
func (e Eval) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// AppendJSON writes what encoding/json would, without looking whether the page is JSON: it was when it came in.
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
	to = appendField(to, `,"spanId":`, r.SpanID)
	to = strconv.AppendBool(append(to, `,"devmode":`...), r.Devmode)
	to = strconv.AppendBool(append(to, `,"pending":`...), r.Pending)
	to = strconv.AppendBool(append(to, `,"success":`...), r.Success)
	to = encode.Optional(append(to, `,"error":`...), r.Error)
	to = appendCompact(append(to, `,"result":`...), r.Result)
	if r.Truncated {
		to = append(to, `,"truncated":true`...)
	}
	to = r.CreatedAt.Append(append(to, `,"createdAt":"`...))
	to = r.UpdatedAt.Append(append(to, `","updatedAt":"`...))
	return append(to, `"}`...), nil
}

// MarshalJSON is AppendJSON for those who do not know it.
func (r Run) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// appendField leaves the field out when there is no text.
func appendField(to []byte, name string, text *string) []byte {
	if text == nil {
		return to
	}
	return encode.String(append(to, name...), *text)
}

// appendCompact adds JSON without the space between its tokens; none is null.
func appendCompact(to, text []byte) []byte {
	if len(text) == 0 {
		return append(to, "null"...)
	}
	inString, from := false, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			inString = !inString
		case '\\': // in a string: what follows is not its end
			i++
		case ' ', '\t', '\n', '\r':
			if !inString {
				to = append(to, text[from:i]...)
				from = i + 1
			}
		}
	}
	return append(to, text[from:]...)
}
