package db_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// TestNameIndexFindsByIDAndWords searches names with characters that are special elsewhere. Names that
// begin with the text come first.
func TestNameIndexFindsByIDAndWords(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			for i, name := range []string{
				"Orders", "orders 2", "ORDERS-3", "border", "100%", "100 orders", "a_b", "axb", `q'"\`, "prj_0",
				"product-photos", "Photos_of.Products", "GRÖSSE_Übersicht", "日本 語",
			} {
				if _, err := tx.Exec(`INSERT INTO projects (org_id, id, name, created_at, version) VALUES ('org_a', $1, $2, 0, 1)`,
					fmt.Sprintf("prj_%d", i), name); err != nil {
					return err
				}
			}
			_, err := tx.Exec(`INSERT INTO projects (org_id, id, name, created_at, version) VALUES ('org_b', 'prj_b', 'orders', 0, 1)`)
			return err
		}))
		index := db.NameIndex{Table: "projects", ID: "id", Index: "projects_name"}
		for text, want := range map[string]string{
			"ord": "Orders,orders 2,ORDERS-3,100 orders", "ORDERS": "Orders,orders 2,ORDERS-3,100 orders",
			"orders ": "orders 2,100 orders,Orders,ORDERS-3", "100%": "100%,100 orders", "100": "100 orders,100%",
			"a_": "a_b,axb", `q'"`: `q'"\`, "prj_3": "border", "prj_0": "Orders,prj_0", "prj_b": "", "zzz": "", "%": "", "\U0010FFFF": "",
			"photos": "Photos_of.Products,product-photos", "PHOT": "Photos_of.Products,product-photos", "hotos": "", "oduct": "",
			"products": "Photos_of.Products", "photos product": "Photos_of.Products,product-photos", "product/ph": "Photos_of.Products,product-photos",
			"photos orders": "", "über": "GRÖSSE_Übersicht", "grösse": "GRÖSSE_Übersicht", "bersicht": "", "語": "日本 語", "本": "", "b": "border,a_b",
		} {
			found, err := index.Find(d.Read(t.Context()), "org_a", text, 20)
			must(t, err)
			var names []string
			for _, f := range found {
				names = append(names, f.Name)
			}
			if got := strings.Join(names, ","); got != want {
				t.Errorf("%q: %s, want %s", text, got, want)
			}
		}
		limited, err := index.Find(d.Read(t.Context()), "org_a", "ord", 2)
		must(t, err)
		if want := []db.Named{{ID: "prj_0", Name: "Orders"}, {ID: "prj_1", Name: "orders 2"}}; !slices.Equal(limited, want) {
			t.Errorf("%v", limited)
		}
		one, err := index.With("version", 2).Find(d.Read(t.Context()), "org_a", "ord", 20)
		if must(t, err); len(one) != 0 {
			t.Errorf("the condition is ignored: %v", one)
		}
	})
}

// TestNameIndexesAreUsed reads SQLite's plans for all tables that are searched.
func TestNameIndexesAreUsed(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	for index, conditions := range map[string]string{
		"webhooks_name webhooks": "", "oidc_clients_name oidc_clients": "", "api_keys_name api_keys": "",
		"api_keys_user_name api_keys": " AND user_id = $4", "buckets_name buckets": "", "projects_name projects": "",
		"evals_name evals": "", "evals_project_name evals": " AND project_id = $4", "resources_lower_name resources": " AND type = $4",
	} {
		name, table, _ := strings.Cut(index, " ")
		lines, err := db.Collect(d.Read(t.Context()), func(row db.Row) (s string, err error) {
			var a, b, c int
			return s, row.Scan(&a, &b, &c, &s)
		}, `EXPLAIN QUERY PLAN SELECT name FROM `+table+` INDEXED BY `+name+` WHERE org_id = $1`+conditions+
			` AND lower(name) >= lower($2) AND lower(name) < lower($3) ORDER BY lower(name) LIMIT 20`, append([]any{"org_a", "a", "b"}, slices.Repeat([]any{"x"}, strings.Count(conditions, "$4"))...)...)
		must(t, err)
		if got := strings.Join(lines, "; "); !strings.Contains(got, "<expr>>? AND <expr><?") || strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("%s: %s", index, got)
		}
	}
}
