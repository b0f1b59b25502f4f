package resource

// Region is a place where resources can be created.
type Region struct {
	Region      string `json:"region" example:"local"`
	Description string `json:"description" example:"This machine"`
}
