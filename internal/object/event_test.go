package object

import (
	"testing"
	"time"

	"steward/internal/stamp"
)

func TestNotification(t *testing.T) {
	at := stamp.Of(time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC))
	b := &Bucket{Name: "photos", OrgID: "org_a", Region: "local", WebhookID: "wh_1"}
	for _, test := range []struct {
		e    Event
		want string
	}{
		{
			Event{Name: EventPut, At: at, Key: "a b/ä", Size: 3, ETag: "abc", Origin: Origin{"req_1", "192.0.2.1"}},
			`{"Records":[{"awsRegion":"local","eventName":"ObjectCreated:Put","eventSource":"aws:s3","eventTime":"2026-11-15T08:30:00.000Z",` +
				`"eventVersion":"2.1","requestParameters":{"sourceIPAddress":"192.0.2.1"},"responseElements":{"x-amz-request-id":"req_1"},` +
				`"s3":{"bucket":{"arn":"arn:aws:s3:::photos","name":"photos","ownerIdentity":{"principalId":"org_a"}},"configurationId":"wh_1",` +
				`"object":{"eTag":"abc","key":"a+b/%C3%A4","sequencer":"0006604C77907200","size":3},"s3SchemaVersion":"1.0"},` +
				`"userIdentity":{"principalId":"org_a"}}]}`,
		},
		{
			Event{Name: EventDelete, At: at, Key: "k"},
			`{"Records":[{"awsRegion":"local","eventName":"ObjectRemoved:Delete","eventSource":"aws:s3","eventTime":"2026-11-15T08:30:00.000Z",` +
				`"eventVersion":"2.1","requestParameters":{"sourceIPAddress":""},"responseElements":{"x-amz-request-id":""},` +
				`"s3":{"bucket":{"arn":"arn:aws:s3:::photos","name":"photos","ownerIdentity":{"principalId":"org_a"}},"configurationId":"wh_1",` +
				`"object":{"key":"k","sequencer":"0006604C77907200"},"s3SchemaVersion":"1.0"},"userIdentity":{"principalId":"org_a"}}]}`,
		},
	} {
		got, err := test.e.Notification(b)
		must(t, err)
		if string(got) != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}
