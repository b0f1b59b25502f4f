package object

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/web"
)

// serve returns the routes of this package as the server has them, for one caller.
func serve(f *fixture, c *auth.Caller) *web.API {
	h := f.http
	h.Presign = func(b *Bucket, key, method string, _ time.Duration) (string, error) {
		return "https://s3.test/" + b.Name + "/" + key + "?" + method, nil
	}
	table := []web.Route{
		web.On("GET /storage/objects/{bucket}", "", auth.ReadObjects, 200, "", h.Objects),
		web.On("DELETE /storage/objects/{bucket}", "", auth.WriteObjects, 200, "", h.DeleteObjects),
		web.On("GET /storage/presign/{bucket}", "", auth.ReadObjects, 200, "", h.PresignURL),
		web.On("GET /storage/stats/{bucket}", "", auth.ReadObjects, 200, "", h.Stats),
		web.On("GET /storage/analytics", "", auth.ReadObjects, 200, "", h.Analytics),
		web.On("GET /storage/folders/{bucket}", "", auth.ReadObjects, 200, "", h.Folders),
		web.On("GET /bucket/config/{bucket}", "", auth.ReadObjects, 200, "", h.Config),
		web.On("PUT /bucket/config/{bucket}", "", auth.WriteObjects, 200, "", h.UpdateConfig),
		web.On("DELETE /bucket/config/{bucket}", "", auth.WriteObjects, 200, "", h.ResetConfig),
	}
	return web.NewAPI(table, func(_ web.Route, _ http.ResponseWriter, r *http.Request) *http.Request {
		return r.WithContext(auth.With(r.Context(), c))
	}, nil)
}

// TestRoutes sends requests as clients do.
func TestRoutes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		f.put(b, "a b/ä", "abc")
		api := serve(f, alice)
		for _, step := range []struct {
			request string
			body    string
			status  int
			want    string // part of the response
		}{
			{"GET /storage/objects/photos", "", 200, `"total":1,"prefix":"","limit":100,"offset":0}`},
			{"GET /storage/objects/photos?prefix=a%20b%2F&limit=5&offset=1", "", 200, `{"objects":[],"total":1,"prefix":"a b/","limit":5,"offset":1}`},
			{"GET /storage/objects/photos?limit=1001", "", 422, "query.limit"},
			{"GET /storage/objects/photos?offset=-1", "", 422, "query.offset"},
			{"GET /storage/objects/photos?limit=x", "", 422, "query.limit"},
			{"GET /storage/objects/other", "", 404, "bucket other not found"},
			{"GET /storage/presign/photos?key=k", "", 200, `{"presigned_url":"https://s3.test/photos/k?GET","expiry_seconds":3600}`},
			{"GET /storage/presign/photos?key=k&operation=upload", "", 200, `k?PUT`},
			{"GET /storage/presign/photos?key=k&operation=delete", "", 422, "query.operation"},
			{"GET /storage/presign/photos?key=k&expiry_seconds=604800", "", 200, `"expiry_seconds":604800`},
			{"GET /storage/presign/photos?key=k&expiry_seconds=604801", "", 422, "query.expiry_seconds"},
			{"GET /storage/presign/photos?key=k&expiry_seconds=0", "", 422, "query.expiry_seconds"},
			{"GET /storage/presign/photos", "", 422, "query.key"},
			{"GET /storage/presign/photos?key=a/../k", "", 422, "HTTP clients remove the segments . and .. from URLs"},
			{"GET /storage/stats/photos", "", 200, `"object_count":1,"total_size":3`},
			{"GET /storage/analytics", "", 200, `"days":180,"priced":false}`},
			{"GET /storage/analytics?days=1", "", 200, `"daily":[{"date":"2026-11-15","total_object_count":1,"total_size":3`},
			{"GET /storage/analytics?days=0", "", 422, "query.days"},
			{"GET /storage/folders/photos", "", 200, `{"prefix":"","folders":[{"prefix":"a b/","object_count":1,"total_size":3}],"objects":[]}`},
			{"PUT /bucket/config/photos", `{"storage_tier":null,"ttl":10,"cors":{"allowed_origins":["*"]},"additional_headers":{"X-A":"1"}}`, 200, `"ttl":10,`},
			{"PUT /bucket/config/photos", `{"ttl":0}`, 200, `"ttl":null,"public":null,"cache_control":null,"cors":{"allowed_origins":["*"]}`},
			{"PUT /bucket/config/photos", `{"cors":null,"unknown":1}`, 200, `"cors":null,"additional_headers":{"X-A":"1"}`},
			{"PUT /bucket/config/photos", `{"ttl":"x"}`, 422, "body.ttl"},
			{"PUT /bucket/config/photos", `{"storage_tier":"COLD"}`, 422, "body.storage_tier"},
			{"GET /bucket/config/photos", "", 200, `"additional_headers":{"X-A":"1"},"bucket_location":"local"}`},
			{"DELETE /bucket/config/photos", "", 200, ""},
			{"GET /bucket/config/photos", "", 200, `"additional_headers":null`},
			{"DELETE /storage/objects/photos", "", 422, "query.key"},
			{"DELETE /storage/objects/photos?prefix=", "", 422, "query.key"},
			{"DELETE /storage/objects/photos?key=x&prefix=y", "", 422, "query.key"},
			{"DELETE /storage/objects/photos?key=none", "", 200, `{"deleted_count":0}`},
			{"DELETE /storage/objects/photos?key=a%20b%2F%C3%A4", "", 200, `{"deleted_count":1}`},
		} {
			method, target, _ := strings.Cut(step.request, " ")
			r := httptest.NewRequest(method, target, strings.NewReader(step.body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			body := w.Body.String()
			if w.Code != step.status || !strings.Contains(body, step.want) || step.want == "" && body != "" {
				t.Errorf("%s %s: %d %s", step.request, step.body, w.Code, body)
			}
		}
	})
}
