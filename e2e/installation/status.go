package installation

// Status is the response from GET /status.
type Status struct {
	Version  string
	Replicas int
	Database struct {
		Engine string
		OK     bool
	}
	Regions []struct {
		Region  string
		Engines map[string]struct {
			Engine, Error string
			OK            bool
		}
	}
	Webhooks struct {
		Pending     int
		OldestDueAt *string `json:"oldest_due_at"`
		Failing     []struct {
			WebhookID     string `json:"webhook_id"`
			DestinationID string `json:"destination_id"`
			Host          string
			Count         int
			LastError     string `json:"last_error"`
		}
	}
}

// Status returns the installation's status.
func (s *Steward) Status() (got Status) {
	s.T.Helper()
	s.Call("GET", "/status", nil).Want(200).Decode(&got)
	return got
}
