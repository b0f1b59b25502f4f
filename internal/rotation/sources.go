package rotation

import (
	"encoding/base64"
	"strings"

	"github.com/oklog/ulid/v2"

	"steward/internal/id"
)

// source is a table with columns that hold sealed values.
type source struct {
	table string
	// key has the primary key's columns, and columns those with sealed values, which may be null.
	key     []keyColumn
	columns []column
	// weight is an expression for a row's bytes without its sealed values, or "".
	weight string
	// where restricts the rows, or is "".
	where string
}

// keyColumn is a column in a primary key.
type keyColumn struct {
	name  string
	bytes bool // BYTEA rather than TEXT
}

// column is a column with sealed values.
type column struct {
	name string
	// encoding decodes a TEXT column. It is nil for BYTEA.
	encoding *base64.Encoding
	// purpose returns the purpose of the value in the row with this primary key.
	purpose func(key [][]byte) string
}

// sources returns every column in the database that holds sealed values.
func sources() []source {
	return []source{
		{table: "meta", key: texts("key"), columns: []column{
			{"value", base64.StdEncoding, func(key [][]byte) string { return string(key[0]) }},
		}, where: `key IN ('master_key_check', 'oidc.provider_secret')`},
		{table: "oidc_keys", key: texts("kid"), columns: []column{
			{"private", nil, func(key [][]byte) string { return "oidc.signing_key:" + string(key[0]) }},
		}},
		{table: "oidc_upstreams", key: texts("org_id", "id"), columns: []column{sealed("client_secret", "oidc_upstreams.client_secret")}},
		{table: "oidc_authenticators", key: texts("user_id"), columns: []column{sealed("secret", "oidc.factor.secret")}},
		{table: "buckets", key: texts("name"), columns: []column{sealed("secret", "bucket.secret")}},
		{table: "resources", key: texts("id"), columns: []column{sealed("password", "resource.password")}},
		{table: "webhooks", key: texts("org_id", "id"), columns: []column{
			sealed("token", "webhook.token"), sealed("verification_secrets", "webhook.verification"),
		}},
		{table: "webhook_destinations", key: texts("org_id", "webhook_id", "id"), columns: []column{
			sealed("config", "webhook.destination.config"), sealed("secret", "webhook.destination.secret"),
			sealed("previous_secret", "webhook.destination.secret"),
		}},
		{table: "alerts", key: texts("org_id", "id"), columns: []column{sealed("target", "alert.target")}},
		{table: "certificates", key: texts("name"), columns: []column{
			{"value", nil, func(key [][]byte) string { return "certificate:" + string(key[0]) }},
		}},
		{table: "mails", key: texts("id"), columns: []column{sealed("body", "mail")}},
		{
			table: "idempotency", key: []keyColumn{{name: "org_id"}, {name: "scope", bytes: true}},
			columns: []column{sealed("answer", "idempotency.response")},
			where:   `status <> 0`, // until there is a response, the column holds something else
		},
		{table: "sessions", key: texts("org_id", "id"), columns: []column{sealed("user_data", "session.user_data")}},
		{table: "threads", key: texts("org_id", "id"), columns: []column{sealed("user_data", "thread.user_data")}},
		{table: "webhook_receipts", key: texts("key"), columns: []column{
			{"headers", base64.RawStdEncoding, receiptPurpose},
		}, weight: "size"},
		{table: "webhook_rejected", key: texts("key"), columns: []column{{"headers", base64.RawStdEncoding, receiptPurpose}}},
	}
}

// texts returns primary key columns that are text.
func texts(names ...string) []keyColumn {
	key := make([]keyColumn, len(names))
	for i, name := range names {
		key[i].name = name
	}
	return key
}

// sealed returns a BYTEA column whose values all have the same purpose.
func sealed(name, purpose string) column {
	return column{name: name, purpose: func([][]byte) string { return purpose }}
}

// receiptPurpose returns the purpose of a receipt's headers. The key begins with the webhook's ULID.
func receiptPurpose(key [][]byte) string {
	return "webhook.receipt.headers:" + id.Webhook + "_" + string(key[0][:min(len(key[0]), ulid.EncodedSize)])
}

// names returns the key's column names, separated by commas.
func (s source) names() string {
	var names []string
	for _, k := range s.key {
		names = append(names, k.name)
	}
	return strings.Join(names, ", ")
}

// decode returns the sealed value in a column, or nil if there is none. Text that begins with a brace
// is JSON from a version that did not seal it.
func (c column) decode(stored []byte) (value []byte, err error) {
	switch {
	case len(stored) == 0:
		return nil, nil
	case c.encoding == nil:
		return stored, nil
	case stored[0] == '{':
		return nil, nil
	}
	return c.encoding.DecodeString(string(stored))
}

// encode reverses decode.
func (c column) encode(value []byte) any {
	if c.encoding == nil {
		return value
	}
	return c.encoding.EncodeToString(value)
}

// stored returns a column's value as an argument to compare the column with.
func (c column) stored(read []byte) any {
	if c.encoding == nil {
		return read
	}
	return string(read)
}

// Columns returns every column that holds sealed values, as table.column.
func Columns() []string {
	var all []string
	for _, s := range sources() {
		for _, c := range s.columns {
			all = append(all, s.table+"."+c.name)
		}
	}
	return all
}
