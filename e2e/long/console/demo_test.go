package console

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"steward/e2e/installation"
	"steward/e2e/sink"
	"steward/internal/db"
)

// demo is an installation with what a small company would have in it, for the pictures of the
// documentation and for tests of whole pages.
type demo struct {
	*installation.Steward
	orders, receiptID string // a webhook, and one of its receipts
	dashboard         installation.Application
}

// startDemo starts an installation and fills it.
func startDemo(t *testing.T) *demo {
	d := &demo{Steward: installation.StartWithOwner(t, "sqlite")}
	hooks := []installation.Hook{d.NewHook("orders"), d.NewHook("payments"), d.NewHook("repository")}
	d.orders = hooks[0].ID
	d.addPeople()
	d.addProjects()
	d.addBuckets()
	d.addDatabase()
	d.Offline(func(ctx context.Context, store *db.DB) {
		d.Must(store.Write(ctx, func(tx *db.Tx) error { return d.addHistory(tx, hooks) }))
	})
	d.addKeys()
	d.addRuns()
	d.addTraffic(hooks)
	d.Call("POST", "/alert", object{
		"name": "Orders fail", "kind": "destination_failing", "target": object{"type": "slack", "url": "https://hooks.slack.com/services/T/B/x"},
	}).Want(201)
	return d
}

// addPeople adds members, OAuth apps that some of them use, and API keys.
func (d *demo) addPeople() {
	d.T.Helper()
	scopes := []string{"openid", "profile", "email", "offline_access", "webhook:read"}
	d.dashboard = d.NewApplication(object{"scopes": scopes})
	describe := object{"name": "Shop dashboard", "description": "What the shop sells, hour by hour", "homepage_url": "https://dashboard.example.com"}
	d.Call("PUT", "/oidc/clients/"+d.dashboard.ID, describe).Want(200)
	for _, app := range []object{
		{"name": "Nightly export", "description": "Copies invoices to the accountant", "homepage_url": "https://export.example.com", "grant_types": []string{"client_credentials"}, "scopes": []string{"storage:read"}},
		{"name": "Warehouse scanner", "description": "Runs on the scanners", "homepage_url": "https://scanner.example.com", "client_type": "public", "grant_types": []string{installation.EveryGrant[3], "refresh_token"}, "scopes": []string{"openid", "offline_access"}},
	} {
		d.Call("POST", "/oidc/clients", app).Want(200)
	}
	p := d.NewRelyingParty(d.dashboard, scopes...)
	ada := d.NewBrowser()
	p.SignIn(ada)
	ada.Rename("Ada", "Brandt")
	for _, m := range []struct{ first, last, role string }{{"Grace", "Okafor", "admin"}, {"Mina", "Weber", "member"}, {"Jonas", "Ferrer", "viewer"}} {
		email := strings.ToLower(m.first) + "@example.com"
		b, _ := d.Invite(email, m.role)
		p.SignIn(b)
		b.Rename(m.first, m.last)
	}
	for name, scope := range map[string]string{"deploy": "webhook:write", "backup of the shop": "storage:write"} {
		key := d.Call("POST", "/cli/apikey", object{"name": name, "scopes": []string{scope}, "expiresAt": time.Now().AddDate(0, 3, 0)}).Want(201)
		d.As(key.Text("value")).Call("GET", "/cli/auth/user", nil)
	}
}

// addProjects adds projects with threads.
func (d *demo) addProjects() {
	d.T.Helper()
	support := d.Call("POST", "/cli/project", object{"name": "Support agent"}).Want(201).Text("id")
	d.Call("POST", "/cli/apikey", object{"name": "support runtime", "projectId": support}).Want(201)
	for i := range 14 {
		state := fmt.Sprintf(`{"step": "%s", "order": {"id": %d, "total": %d.5, "items": ["lamp", "shade"]}, "turns": %d}`, []string{"greeting", "refund", "done"}[i%3], 1042+i, 20+i, 2+i)
		metadata := object{"customer": []string{"ada", "grace", "mina", "jonas"}[i%4], "channel": []string{"chat", "mail"}[i%2]}
		d.Call("PUT", fmt.Sprintf("/thread/conversation-%d", 480+i), object{"project_id": support, "metadata": metadata, "user_data": state}).Want(200)
	}
	for i := range 24 {
		d.addSession(support, i)
	}
	for eval, name := range map[string]string{"polite": "Is polite", "order": "Names the right order"} {
		d.Call("PUT", "/cli/eval/"+eval, object{"name": name, "projectId": support, "agentIdentifier": "support", "description": "Asks another model about the answer"}).Want(200)
	}
}

// addSession adds a session of the last hours. Every ninth fails.
func (d *demo) addSession(project string, i int) {
	d.T.Helper()
	id := fmt.Sprintf("session-%d", 7200+i)
	thread := fmt.Sprintf("conversation-%d", 480+i%14)
	began := time.Now().Add(-time.Duration(24-i) * 11 * time.Minute)
	body := installation.SessionRequest(d.Steward, id, thread, project)
	body["routeId"] = ""
	body["url"] = "/support/message"
	body["timestamp"] = began
	d.Call("POST", "/session", body).Want(201)
	end := object{
		"id": id, "threadId": thread, "statusCode": 200, "agentIds": []string{"support"},
		"userData": `{"answer": "Your lamp is on its way."}`, "timestamp": began.Add(time.Duration(800+i*370) * time.Millisecond),
	}
	if i%9 == 8 {
		end["statusCode"] = 504
		end["error"] = "the model did not answer within 30 s"
	}
	d.Call("PUT", "/session", end).Want(200)
}

// addRuns adds runs of the evaluations over the last month, of which nine of ten pass.
func (d *demo) addRuns() {
	d.T.Helper()
	var evals []struct{ ID, ProjectID string }
	d.Call("GET", "/cli/eval", nil).Want(200).Decode(&evals)
	for i := range 90 {
		e := evals[i%len(evals)]
		r := installation.EvalRun{ID: fmt.Sprintf("run-%d", 300+i), SessionID: fmt.Sprintf("session-%d", 7200+i%24), EvalID: e.ID, ProjectID: e.ProjectID}
		body := r.Body(d.OrgID, 0)
		body["timestamp"] = time.Now().Add(-time.Duration(90-i) * 8 * time.Hour)
		d.Call("POST", "/evalrun", body).Want(201)
		result := object{"success": i%10 != 7 && i%23 != 5, "score": 0.6 + float64(i%4)/10, "reason": "The answer names the order and is friendly."}
		d.Call("PUT", "/evalrun", object{"id": r.ID, "result": result}).Want(200)
	}
}

// addBuckets adds buckets with folders, documents and pictures.
func (d *demo) addBuckets() {
	d.T.Helper()
	photos, invoices, backups := d.NewBucket("product-photos"), d.NewBucket("invoices"), d.NewBucket("backups")
	for i, name := range []string{"lamp", "shade", "desk", "chair", "clock", "vase"} {
		picture := sphere(uint8(i * 40))
		for _, view := range []string{"front", "side"} {
			options := minio.PutObjectOptions{ContentType: "image/png"}
			d.Must(photos.TryPut("2026/"+name+"/"+view+".png", picture, options))
			d.Must(photos.TryPut(name+"-"+view+".png", picture, options))
		}
		d.Must(invoices.TryPut(fmt.Sprintf("2026/%02d/invoice-%d.json", i+1, 1042+i), `{"invoice": 1042, "total": 129.5, "paid": true}`, minio.PutObjectOptions{ContentType: "application/json"}))
	}
	photos.Put("readme.txt", "Photos of all products. Front and side, 480 pixels wide.\n")
	for i := range 3 {
		backups.Put(fmt.Sprintf("shop-%d.tar.zst", i), strings.Repeat("backup", 1<<18))
	}
}

// sphere returns a PNG picture of a sphere.
func sphere(hue uint8) string {
	const size = 480
	img := image.NewRGBA(image.Rect(0, 0, size, size))
	for y := range size {
		for x := range size {
			c := color.RGBA{0xf4, 0xf0, 0xe8, 0xff}
			if math.Hypot(float64(x-size/2), float64(y-size/2)) < 180 {
				light := uint8(200 * max(0, 1-math.Hypot(float64(x-180), float64(y-160))/330))
				c = color.RGBA{light/2 + hue/2 + 20, light/2 + 50, light/3 + 150 - hue/2, 0xff}
			}
			img.Set(x, y, c)
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		panic(err) // a buffer takes it
	}
	return out.String()
}

// addDatabase adds a database with tables.
func (d *demo) addDatabase() {
	d.T.Helper()
	shop := d.NewDatabase("shop")
	shop.Exec(`CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT, since TEXT)`)
	shop.Exec(`CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customers, total REAL, state TEXT, paid_at TEXT)`)
	shop.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 60) INSERT INTO customers SELECT i,
		substr('AdaGraMinJonEvaTomLeaBen', (i%8)*3+1, 3) || ' ' || char(65+i%26) || '.', CASE i%4 WHEN 0 THEN 'Zürich' WHEN 1 THEN 'Wien' WHEN 2 THEN 'Lyon' ELSE NULL END,
		date('2026-01-01', '+' || (i*4) || ' days') FROM n`)
	shop.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 400) INSERT INTO orders SELECT 1000+i, 1+i%60,
		round(19.9 + (i*37)%230, 2), CASE i%7 WHEN 0 THEN 'open' WHEN 3 THEN 'sent' ELSE 'paid' END, CASE i%7 WHEN 0 THEN NULL ELSE datetime('2026-08-01', '+' || (i*6) || ' hours') END FROM n`)
	d.NewDatabase("analytics")
}

// addKeys adds a key-value store with keys, some of which expire.
func (d *demo) addKeys() {
	d.T.Helper()
	ctx := context.Background()
	c := d.NewKVStore("carts").Client()
	for i := range 30 {
		d.Must(c.Set(ctx, fmt.Sprintf("cart:%d", 2210+i), fmt.Sprintf(`{"items": %d, "total": %d}`, 1+i%5, 20+i*3), time.Duration(60+i*7)*time.Minute).Err())
	}
	d.Must(c.HSet(ctx, "stock:lamp", "zürich", 14, "wien", 3).Err())
	d.Must(c.LPush(ctx, "recent", "lamp", "vase", "desk").Err())
	d.Must(c.Set(ctx, "rate:limit", "250", 0).Err())
}

// addTraffic sends requests to the webhooks. One of three destinations refuses what it gets.
func (d *demo) addTraffic(hooks []installation.Hook) {
	d.T.Helper()
	k := sink.New(d.T)
	k.Handle("/newsletter", func(w http.ResponseWriter, _ *http.Request, _ int) {
		http.Error(w, `{"error": "the mailing list is full"}`, http.StatusServiceUnavailable)
	})
	slow := func(_ http.ResponseWriter, _ *http.Request, n int) {
		time.Sleep(time.Duration(8+n%5*6) * time.Millisecond) // as long as a service takes
	}
	k.Handle("/warehouse", slow)
	k.Handle("/accounting", slow)
	for _, to := range []string{"/warehouse", "/accounting", "/newsletter"} {
		d.NewDestination(hooks[0], k.URL+to)
	}
	d.NewDestination(hooks[1], k.URL+"/accounting")
	for i := range 24 {
		body := fmt.Sprintf(`{"order": %d, "state": %q, "total": %d.5, "customer": {"name": %q, "city": %q}, "lines": [{"sku": "lamp-2", "count": %d}]}`,
			1042+i, []string{"paid", "sent", "returned"}[i*i%3], 20+i*13%90, []string{"Mina", "Jonas", "Lea", "Tom"}[i%4], []string{"Zürich", "Lyon", "Wien"}[i%3], 1+i%3)
		d.receiptID = d.Ingest(hooks[0], body, "Content-Type", "application/json", "User-Agent", "shop/4.1", "X-Signature", fmt.Sprintf("sha256=%064x", 77+i))
	}
	for i := range 9 {
		d.Ingest(hooks[1], fmt.Sprintf(`{"payment": "pay_%d", "amount": %d}`, 9200+i, 40+i), "Content-Type", "application/json")
	}
	k.Wait("/warehouse", 24)
	k.Wait("/newsletter", 24)
	k.Wait("/accounting", 33)
	d.Call("POST", "/webhook/replay/"+d.orders, object{"since": time.Now().Add(-time.Hour)}).Want(201)
}

// addHistory writes what the installation would have counted over the last months.
func (d *demo) addHistory(tx *db.Tx, hooks []installation.Hook) error {
	if _, err := tx.Exec(`UPDATE orgs SET name = 'Lamplight' WHERE id = $1`, d.OrgID); err != nil {
		return err
	}
	now := time.Now().Unix()
	for i, h := range hooks {
		for _, span := range []struct{ unit, count int64 }{{60, 360}, {3600, 24 * 60}, {86400, 365}} {
			for n := int64(1); n < span.count; n++ {
				bucket := now/span.unit - n
				if err := addCounts(tx, d.OrgID, h.ID, span.unit, bucket, busy(bucket*span.unit, i)*span.unit/3600); err != nil {
					return err
				}
			}
		}
	}
	if err := d.addActivity(tx, now/86400); err != nil {
		return err
	}
	return d.addGrowth(tx, now/86400)
}

// busy returns how many requests an hour arrive: more by day than by night and than on weekends.
func busy(at int64, webhook int) int64 {
	t := time.Unix(at, 0).UTC()
	daily := 1 + math.Sin(float64(t.Hour()-8)/24*2*math.Pi)
	if t.Weekday() == time.Saturday || t.Weekday() == time.Sunday {
		daily /= 3
	}
	noise := 1 + float64(at/60*7919%100)/160
	return int64(daily*noise*float64(260/(1+webhook*2))) + 60
}

func addCounts(tx *db.Tx, orgID, webhookID string, unit, bucket, received int64) error {
	failed := received / 40
	if bucket*unit/86400%11 == 3 { // a bad day
		failed = received / 5
	}
	if _, err := tx.Exec(`INSERT INTO webhook_counts_each (org_id, webhook_id, unit, bucket, received, delivered, failed)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`, orgID, webhookID, unit, bucket, received, received*2-failed, failed); err != nil {
		return err
	}
	_, err := tx.Exec(`INSERT INTO webhook_counts (org_id, unit, bucket, received, delivered, failed) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (org_id, unit, bucket) DO UPDATE SET received = webhook_counts.received + excluded.received,
		delivered = webhook_counts.delivered + excluded.delivered, failed = webhook_counts.failed + excluded.failed`,
		orgID, unit, bucket, received, received*2-failed, failed)
	return err
}

// addActivity writes how often the OAuth app was used.
func (d *demo) addActivity(tx *db.Tx, today int64) error {
	for day := today - 90; day < today; day++ {
		if _, err := tx.Exec(`INSERT INTO oidc_client_days (org_id, client_id, day, total, users) VALUES ($1, $2, $3, $4, $5)`,
			d.OrgID, d.dashboard.ID, day, 30+day*31%50, 1+day*7%4); err != nil {
			return err
		}
	}
	return nil
}

// addGrowth makes the backups large, and spreads what was stored over the last months.
func (d *demo) addGrowth(tx *db.Tx, today int64) error {
	total := int64(0)
	for day := today - 150; day < today; day++ {
		grown := 4_000_000_000 + day*day%13*1_100_000_000
		if day%30 == 0 { // the oldest backups are removed
			grown = -120_000_000_000
		}
		total += grown
		if _, err := tx.Exec(`INSERT INTO object_usage (org_id, day, tier, objects, bytes) SELECT $1, $2, tier, 0, $3 FROM bucket_totals
			WHERE org_id = $1 LIMIT 1`, d.OrgID, day, grown); err != nil {
			return err
		}
	}
	_, err := tx.Exec(`UPDATE bucket_totals SET bytes = bytes + $1 WHERE org_id = $2
		AND bucket_id = (SELECT id FROM buckets WHERE org_id = $2 AND name = 'backups')`, total, d.OrgID)
	return err
}
