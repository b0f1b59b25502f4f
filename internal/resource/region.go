// Package resource owns regions and what is provisioned in them. So far it lists the regions of the configuration.
package resource

import "context"

// Region is a place where resources can be made.
type Region struct {
	Region      string `json:"region"`
	Description string `json:"description"`
}

// Handler has one method for each route of this package.
type Handler struct{ Configured []Region }

// Regions answers GET /cli/region.
func (h *Handler) Regions(context.Context, *struct{}) ([]Region, error) { return h.Configured, nil }
