package installation

import (
	"math/rand/v2"
	"time"
)

// CheckTotals fails unless the list, the statistics and the analytics agree with these figures.
func (b Bucket) CheckTotals(count, size int64) {
	b.T.Helper()
	var list struct{ Total int64 }
	b.Call("GET", "/storage/objects/"+b.Name, nil).Want(200).Decode(&list)
	type totals struct {
		Count int64 `json:"object_count"`
		Size  int64 `json:"total_size"`
	}
	var stats totals
	b.Call("GET", "/storage/stats/"+b.Name, nil).Want(200).Decode(&stats)
	var all struct {
		Buckets []struct {
			totals
			Name string `json:"bucket_name"`
		}
		Summary struct {
			Count int64 `json:"total_object_count"`
			Size  int64 `json:"total_size"`
		}
	}
	b.Call("GET", "/storage/analytics", nil).Want(200).Decode(&all)
	want := totals{count, size}
	if list.Total != count || stats != want || len(all.Buckets) != 1 || all.Buckets[0].totals != want || totals(all.Summary) != want {
		b.T.Errorf("total %d, statistics %+v, analytics %+v, want %d objects of %d bytes", list.Total, stats, all, count, size)
	}
}

// RandomText returns bytes that are the same in every run.
func RandomText(size int) string {
	text := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(text) // never fails
	return string(text)
}

// ObjectList is the response from GET /storage/objects/{bucket}.
type ObjectList struct {
	Objects []struct {
		Bucket       string `json:"bucket_name"`
		Key          string
		Size         int64
		LastModified time.Time `json:"last_modified"`
	}
	Total         int64
	Prefix        string
	Limit, Offset int
}

// ListObjects returns a list from the management API.
func (b Bucket) ListObjects(query string) (l ObjectList) {
	b.T.Helper()
	b.Call("GET", "/storage/objects/"+b.Name+"?"+query, nil).Want(200).Decode(&l)
	return l
}
