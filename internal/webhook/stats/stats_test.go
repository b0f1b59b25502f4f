package stats

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/period"
	"steward/internal/stamp"
)

// plainTimeseries has no AppendJSON.
type plainTimeseries Timeseries

func TestTimeseriesEncodesLikeJSON(t *testing.T) {
	number := rapid.Int64Range(0, 1<<40)
	bucket := rapid.Custom(func(t *rapid.T) Bucket {
		return Bucket{Timestamp: stamp.Time(number.Draw(t, "timestamp")), Count: Count{
			Received: number.Draw(t, "received"), Delivered: number.Draw(t, "delivered"), Failed: number.Draw(t, "failed"), Filtered: number.Draw(t, "filtered"),
		}}
	})
	rapid.Check(t, func(t *rapid.T) {
		series := Timeseries{
			Period: period.Period{Start: stamp.Time(number.Draw(t, "start")), End: stamp.Time(number.Draw(t, "end")), Granularity: period.Hour},
			Series: rapid.SliceOf(bucket).Draw(t, "series"),
		}
		got, err := series.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(plainTimeseries(series))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestJSON(t *testing.T) {
	counted := period.Period{Start: 0, End: stamp.Time(3600 * 1_000_000), Granularity: period.Hour}
	const periodText = `{"start":"1970-01-01T00:00:00.000Z","end":"1970-01-01T01:00:00.000Z","granularity":"hour"}`
	sums := Analytics{Period: counted, Summary: Summary{Received: 1, Delivered: 2, Failed: 3, Filtered: 4}}
	series := Timeseries{Period: counted, Series: []Bucket{{Count: Count{1, 2, 3, 4}}}}
	const sumsText = `{"period":` + periodText + `,"summary":{"total_received":1,"total_delivered":2,"total_failed":3,"total_filtered":4}}`
	const seriesText = `{"period":` + periodText +
		`,"series":[{"timestamp":"1970-01-01T00:00:00.000Z","received":1,"delivered":2,"failed":3,"filtered":4}]}`
	for want, value := range map[string]any{
		sumsText:                            sums,
		`{"analytics":` + sumsText + `}`:    sums.SDK(),
		seriesText:                          series,
		`{"timeseries":` + seriesText + `}`: series.SDK(),
	} {
		if got, err := json.Marshal(value); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}
