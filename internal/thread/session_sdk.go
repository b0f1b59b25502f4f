package thread

import (
	"bytes"
	"encoding/json"
	"net/url"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/eval"
	"steward/internal/page"
	"steward/internal/stamp"
)

// EvalRun is an evaluation run, as SDKs show it with its session.
type EvalRun struct {
	ID        string          `json:"id"`
	CreatedAt stamp.Time      `json:"created_at"`
	EvalID    string          `json:"eval_id"`
	Pending   bool            `json:"pending"`
	Success   bool            `json:"success"`
	Error     *string         `json:"error"`
	Result    json.RawMessage `json:"result"`
}

// SessionDetail is one session. On the SDK face it comes with its evaluation runs.
type SessionDetail struct {
	Session
	runs []eval.Run
}

// Schema returns a session's schema.
func (SessionDetail) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[Session](), true, "")
}

// SDK returns the envelope's data.
func (d SessionDetail) SDK() any {
	out := sdkDetail{Session: d.forSDK(), Agents: []sdkAgent{}, EvalRuns: []EvalRun{}}
	for _, id := range d.AgentIDs {
		out.Agents = append(out.Agents, sdkAgent{Name: id, Identifier: id})
	}
	for _, run := range d.runs {
		if !bytes.HasPrefix(run.Result, []byte("{")) { // SDKs read objects only
			run.Result = nil
		}
		out.EvalRuns = append(out.EvalRuns, EvalRun{
			ID: run.ID, CreatedAt: run.CreatedAt, EvalID: run.EvalID, Pending: run.Pending,
			Success: run.Success, Error: run.Error, Result: run.Result,
		})
	}
	if d.RouteID != "" {
		out.Route = &sdkRoute{ID: d.RouteID, Method: d.Method, Path: pathOf(d.URL)}
	}
	return out
}

// SDK returns the envelope's data.
func (r Session) SDK() any { return r.forSDK() }

// Sessions is a page of sessions.
type Sessions struct{ page.Page[Session] }

// SDK returns the envelope's data.
func (p Sessions) SDK() any {
	shown := make([]sdkSession, len(p.Items))
	for i, r := range p.Items {
		shown[i] = r.forSDK()
	}
	return shown
}

type sdkDetail struct {
	Session  sdkSession `json:"session"`
	Agents   []sdkAgent `json:"agents"`
	EvalRuns []EvalRun  `json:"eval_runs"`
	Route    *sdkRoute  `json:"route"`
}

type sdkAgent struct {
	Name       string `json:"name"`
	Identifier string `json:"identifier"`
}

type sdkRoute struct {
	ID     string `json:"id"`
	Method string `json:"method"`
	Path   string `json:"path"`
}

// sdkSession is a session as SDKs read it. Steward does not measure the fields that are null.
type sdkSession struct {
	ID               string      `json:"id"`
	CreatedAt        stamp.Time  `json:"created_at"`
	UpdatedAt        stamp.Time  `json:"updated_at"`
	Deleted          bool        `json:"deleted"`
	DeletedAt        *stamp.Time `json:"deleted_at"`
	DeletedBy        *string     `json:"deleted_by"`
	StartTime        stamp.Time  `json:"start_time"`
	EndTime          *stamp.Time `json:"end_time"`
	Duration         *int64      `json:"duration"` // in nanoseconds
	OrgID            string      `json:"org_id"`
	ProjectID        string      `json:"project_id"`
	DeploymentID     string      `json:"deployment_id"`
	AgentIDs         []string    `json:"agent_ids"`
	Trigger          string      `json:"trigger"`
	Env              string      `json:"env"`
	Devmode          bool        `json:"devmode"`
	Pending          bool        `json:"pending"`
	Success          bool        `json:"success"`
	Error            *string     `json:"error"`
	Metadata         Metadata    `json:"metadata"`
	CPUTime          *int64      `json:"cpu_time"`
	LLMCost          *float64    `json:"llm_cost"`
	PromptTokens     *int64      `json:"llm_prompt_token_count"`
	CompletionTokens *int64      `json:"llm_completion_token_count"`
	TotalCost        *float64    `json:"total_cost"`
	Method           *string     `json:"method"`
	URL              *string     `json:"url"`
	RouteID          *string     `json:"route_id"`
	ThreadID         *string     `json:"thread_id"`
	UserData         *string     `json:"user_data"`
}

func (r Session) forSDK() sdkSession {
	s := sdkSession{
		ID: r.ID, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, StartTime: r.StartedAt, EndTime: r.CompletedAt,
		OrgID: r.OrgID, ProjectID: r.project(), AgentIDs: append([]string{}, r.AgentIDs...), Trigger: r.Trigger,
		Env: r.Environment, Devmode: r.Devmode, Pending: r.Pending, Success: r.succeeded(), Error: r.Error,
		Metadata: r.Metadata, Method: nonEmpty(r.Method), URL: nonEmpty(absolute(r.URL)), RouteID: nonEmpty(r.RouteID),
		ThreadID: r.ThreadID, UserData: r.UserData,
	}
	if r.DeploymentID != nil {
		s.DeploymentID = *r.DeploymentID
	}
	if r.CompletedAt != nil {
		s.Duration = new(r.CompletedAt.Sub(r.StartedAt).Nanoseconds())
	}
	return s
}

// succeeded reports whether the session has completed, and neither agent nor server failed.
func (r Session) succeeded() bool {
	return !r.Pending && r.Error == nil && (r.StatusCode == nil || *r.StatusCode < 500)
}

// absolute returns a URL with a host, which SDKs need to read it: runtimes send paths.
func absolute(text string) string {
	if len(text) > 0 && text[0] == '/' {
		return "http://localhost" + text
	}
	return text
}

// pathOf returns a URL's path, or the whole text if it is no URL.
func pathOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	return u.Path
}

func nonEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
