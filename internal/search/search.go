// Package search finds an organization's things by their ids or by words in their names.
//
// Each Source is a function from the package that owns the things. It returns a few of them, from an
// index, and only those the caller may see. Handler asks the sources that the caller has permission
// for.
package search

import (
	"context"

	"steward/internal/auth"
	"steward/internal/db"
)

// maxResults bounds a search's results.
const maxResults = 20

// Result is a thing that we found.
type Result struct {
	_ struct{} `goName:"SearchResult"`

	Type string `json:"type" enum:"webhook,destination,receipt,oauth_client,api_key,bucket,database,store,thread,session,eval,eval_run,project,member"`
	ID   string `json:"id" doc:"Id of the thing; the name of a bucket" example:"wh_01jcq43f5h8k1n4q7t0w3z6c9f"`
	Name string `json:"name" doc:"Its name; that of the webhook for a destination or receipt" example:"Orders"`
	// Parent is set only for parts of webhooks.
	Parent string `json:"parent,omitempty" doc:"Id of the webhook of a destination or receipt" example:"wh_01jcq43f5h8k1n4q7t0w3z6c9f"`
}

// Source finds things of one type.
type Source struct {
	Type string
	// Permission is the permission to read these things.
	Permission auth.Permission
	// Find returns up to limit things that the caller may see. If text is an id, its thing comes
	// first.
	Find func(ctx context.Context, caller *auth.Caller, text string, limit int) ([]db.Named, error)
}

// Handler serves this package's route.
type Handler struct{ Sources []Source }

// Input is a search's query.
type Input struct {
	Text string `query:"q" maxLength:"256" doc:"An id, or words of a name or their beginnings, in any case. The id of a delivery finds its receipt. Nothing is found if it is empty" example:"orders"`
}

// Search serves GET /search.
func (h *Handler) Search(ctx context.Context, in *Input) ([]Result, error) {
	if in.Text == "" {
		return []Result{}, nil
	}
	caller := auth.From(ctx)
	var found [][]Result
	for _, s := range h.Sources {
		if !caller.May(s.Permission) {
			continue
		}
		things, err := s.Find(ctx, caller, in.Text, maxResults)
		if err != nil {
			return nil, err
		}
		results := make([]Result, len(things))
		for i, t := range things {
			results[i] = Result{Type: s.Type, ID: t.ID, Name: t.Name, Parent: t.Parent}
		}
		found = append(found, results)
	}
	return merge(found, in.Text), nil
}

// merge returns the result whose id was searched for first, and then one of each type in turn, so that
// no type crowds out the others.
func merge(found [][]Result, wantedID string) []Result {
	byID, others := []Result{}, []Result{}
	for i := range maxResults {
		for _, results := range found {
			switch {
			case i >= len(results):
			case results[i].ID == wantedID:
				byID = append(byID, results[i])
			default:
				others = append(others, results[i])
			}
		}
	}
	all := append(byID, others...)
	return all[:min(len(all), maxResults)]
}
