package object

import (
	"encoding/json"
	"fmt"
	"net/url"

	"steward/internal/stamp"
)

// notification is an event as S3 sends it (Amazon S3 User Guide, event message structure).
type notification struct {
	Records []record `json:"Records"`
}

type record struct {
	EventVersion      string            `json:"eventVersion"`
	EventSource       string            `json:"eventSource"`
	AWSRegion         string            `json:"awsRegion"`
	EventTime         stamp.Time        `json:"eventTime"`
	EventName         string            `json:"eventName"`
	UserIdentity      principal         `json:"userIdentity"`
	RequestParameters map[string]string `json:"requestParameters"`
	ResponseElements  map[string]string `json:"responseElements"`
	S3                recordS3          `json:"s3"`
}

type principal struct {
	PrincipalID string `json:"principalId"`
}

type recordS3 struct {
	SchemaVersion   string       `json:"s3SchemaVersion"`
	ConfigurationID string       `json:"configurationId"`
	Bucket          recordBucket `json:"bucket"`
	Object          recordObject `json:"object"`
}

type recordBucket struct {
	Name          string    `json:"name"`
	OwnerIdentity principal `json:"ownerIdentity"`
	ARN           string    `json:"arn"`
}

type recordObject struct {
	// Key is encoded as in a query: `+` for a space.
	Key       string `json:"key"`
	Size      int64  `json:"size"`
	ETag      string `json:"eTag,omitempty"`
	Sequencer string `json:"sequencer"`
}

// Notification returns an event of a bucket as S3 sends it.
func Notification(b *Bucket, e Event) ([]byte, error) {
	text, err := json.Marshal(notification{Records: []record{{
		EventVersion: "2.1", EventSource: "aws:s3", AWSRegion: b.Region, EventTime: e.At, EventName: e.Name,
		UserIdentity:      principal{b.AccessKey},
		RequestParameters: map[string]string{"sourceIPAddress": e.Address},
		ResponseElements:  map[string]string{"x-amz-request-id": e.RequestID},
		S3: recordS3{
			SchemaVersion: "1.0", ConfigurationID: b.WebhookID,
			Bucket: recordBucket{Name: b.Name, OwnerIdentity: principal{b.OrgID}, ARN: "arn:aws:s3:::" + b.Name},
			Object: recordObject{
				Key: url.QueryEscape(e.Key), Size: e.Size, ETag: e.ETag, Sequencer: fmt.Sprintf("%016X", int64(e.At)),
			},
		},
	}}})
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	return text, nil
}
