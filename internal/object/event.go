package object

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"steward/internal/stamp"
)

// Event is a change to an object.
type Event struct {
	Name string
	At   stamp.Time
	Key  string
	Size int64
	ETag string
	Origin
}

// Event names, as in AWS.
const (
	EventPut      = "ObjectCreated:Put"
	EventPost     = "ObjectCreated:Post"
	EventCopy     = "ObjectCreated:Copy"
	EventComplete = "ObjectCreated:CompleteMultipartUpload"
	EventDelete   = "ObjectRemoved:Delete"
	EventExpire   = "LifecycleExpiration:Delete"
	EventTag      = "ObjectTagging:Put"
	EventUntag    = "ObjectTagging:Delete"
)

// Notification returns the event as AWS formats it, in JSON with one record. Like AWS, it encodes the key
// as in a query, except for slashes.
func (e Event) Notification(b *Bucket) ([]byte, error) {
	object := map[string]any{"key": strings.ReplaceAll(url.QueryEscape(e.Key), "%2F", "/"), "sequencer": fmt.Sprintf("%016X", int64(e.At))}
	if e.ETag != "" {
		object["size"] = e.Size
		object["eTag"] = e.ETag
	}
	owner := map[string]string{"principalId": b.OrgID}
	record := map[string]any{
		"eventVersion":      "2.1",
		"eventSource":       "aws:s3",
		"awsRegion":         b.Region,
		"eventTime":         e.At,
		"eventName":         e.Name,
		"userIdentity":      owner,
		"requestParameters": map[string]string{"sourceIPAddress": e.Address},
		"responseElements":  map[string]string{"x-amz-request-id": e.RequestID},
		"s3": map[string]any{
			"s3SchemaVersion": "1.0",
			"configurationId": b.WebhookID,
			"bucket":          map[string]any{"name": b.Name, "ownerIdentity": owner, "arn": "arn:aws:s3:::" + b.Name},
			"object":          object,
		},
	}
	text, err := json.Marshal(map[string]any{"Records": []any{record}})
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	return text, nil
}
