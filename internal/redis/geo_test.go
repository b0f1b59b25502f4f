package redis

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// TestGeo compares the commands of positions with redis-server.
func TestGeo(t *testing.T) { compareWithRedis(t, geoExamples) }

func somePlace(t *rapid.T) string {
	return rapid.SampledFrom([]string{"p", "q", "r", "s", "u", "v"}).Draw(t, "member")
}

func somePosition(t *rapid.T) []string {
	lon := rapid.Float64Range(-181, 181).Draw(t, "lon")
	lat := rapid.Float64Range(-86, 86).Draw(t, "lat")
	if rapid.Bool().Draw(t, "near") {
		lon, lat = 13+lon/1000, 38+lat/1000
	}
	return []string{strconv.FormatFloat(lon, 'f', 6, 64), strconv.FormatFloat(lat, 'f', 6, 64)}
}

func someUnit(t *rapid.T) string {
	return rapid.SampledFrom([]string{"m", "km", "FT", "mi", "km", "km", "x"}).Draw(t, "unit")
}

func someRadius(t *rapid.T) string {
	return rapid.SampledFrom([]string{"0", "10", "100", "5000", "-1", "x"}).Draw(t, "radius")
}

// sameDistances compares replies in which distances differ by little, since Go's sines and cosines and those of C
// differ in the last bit.
func sameDistances(theirs, ours any) bool {
	a, b := reflect.ValueOf(theirs), reflect.ValueOf(ours)
	if !a.IsValid() || !b.IsValid() || a.Type() != b.Type() {
		return reflect.DeepEqual(theirs, ours)
	}
	if a.Kind() == reflect.Slice {
		same := a.Len() == b.Len()
		for i := 0; same && i < a.Len(); i++ {
			same = sameDistances(a.Index(i).Interface(), b.Index(i).Interface())
		}
		return same
	}
	if reflect.DeepEqual(theirs, ours) || a.Kind() != reflect.String {
		return reflect.DeepEqual(theirs, ours)
	}
	m, err := strconv.ParseFloat(a.String(), 64)
	n, err2 := strconv.ParseFloat(b.String(), 64)
	return err == nil && err2 == nil && math.Abs(m-n) < 0.00011
}

// geoOptions draws options of all searches. The order is given, since redis-server has one of its own without.
func geoOptions(t *rapid.T, more ...[]string) []string {
	order := rapid.SampledFrom([]string{"ASC", "DESC"}).Draw(t, "order")
	groups := append([][]string{{"WITHDIST"}, {"WITHHASH"}, {"WITHCOORD"}, {"COUNT", someInt(t)}}, more...)
	return append(options(t, groups...), order)
}

func drawSearch(t *rapid.T) []string {
	from := append([]string{"FROMLONLAT"}, somePosition(t)...)
	if rapid.Bool().Draw(t, "member") {
		from = []string{"FROMMEMBER", somePlace(t)}
	}
	by := []string{"BYRADIUS", someRadius(t), someUnit(t)}
	if rapid.Bool().Draw(t, "box") {
		by = []string{"BYBOX", someRadius(t), someRadius(t), someUnit(t)}
	}
	return slices.Concat(from, by)
}

var geoExamples = []example{
	{name: "geoadd", draw: drawGeoAdd},
	{name: "geoadd", draw: drawGeoAdd},
	{name: "geodist", draw: func(t *rapid.T) []string {
		return append([]string{someKey(t), somePlace(t), somePlace(t)}, options(t, []string{someUnit(t)})...)
	}, same: sameDistances},
	{name: "geohash", draw: func(t *rapid.T) []string { return append([]string{someKey(t)}, several(t, 0, 3, somePlace)...) }},
	{name: "geopos", draw: func(t *rapid.T) []string { return append([]string{someKey(t)}, several(t, 0, 3, somePlace)...) }},
	{name: "geosearch", draw: func(t *rapid.T) []string {
		return slices.Concat([]string{someKey(t)}, drawSearch(t), geoOptions(t))
	}, same: sameDistances},
	{name: "geosearch", same: sameLength, draw: func(t *rapid.T) []string {
		return slices.Concat([]string{someKey(t)}, drawSearch(t), anyCount(t))
	}},
	{name: "geosearch", same: anyOrder, draw: func(t *rapid.T) []string { return append([]string{someKey(t)}, drawSearch(t)...) }},
	{name: "geosearchstore", draw: func(t *rapid.T) []string {
		return slices.Concat([]string{someKey(t), someKey(t)}, drawSearch(t),
			options(t, []string{"COUNT", "2"}, []string{"WITHDIST"}, []string{"ASC"}, []string{"DESC"}))
	}},
	{name: "geosearchstore " + distancesKey, draw: func(t *rapid.T) []string {
		return slices.Concat([]string{someKey(t)}, drawSearch(t), options(t, []string{"STOREDIST"}))
	}},
	{name: "geosearchstore other", draw: func(t *rapid.T) []string {
		return slices.Concat([]string{"none"}, drawSearch(t), anyCount(t))
	}},
	{name: "georadius", draw: drawRadius, same: sameDistances},
	{name: "georadius_ro", draw: drawRadius, same: sameDistances},
	{name: "georadiusbymember", draw: drawRadiusByMember, same: sameDistances},
	{name: "georadiusbymember_ro", draw: drawRadiusByMember, same: sameDistances},
	{name: "georadius none 1 1 1 m", draw: anyCount},
	{name: "georadius_ro none 1 1 1 m", draw: anyCount},
	{name: "georadiusbymember none m 1 m", draw: anyCount},
	{name: "georadiusbymember_ro none m 1 m", draw: anyCount},
	{name: "zrange", draw: func(t *rapid.T) []string { return []string{someKey(t), "0", "-1"} }},
	{name: "set", draw: func(t *rapid.T) []string { return []string{someKey(t), "x"} }},
	{name: "del", draw: func(t *rapid.T) []string { return []string{someKey(t)} }},
}

// distancesKey is a key whose scores are distances.
const distancesKey = "distances"

// anyCount draws options for any members, of which redis-server finds others first.
func anyCount(t *rapid.T) []string {
	return options(t, []string{"ANY"}, []string{"COUNT", oneOf("1", "2", "10")(t)})
}

func drawGeoAdd(t *rapid.T) []string {
	args := append([]string{someKey(t)}, options(t, []string{"NX"}, []string{"XX"}, []string{"CH"})...)
	for range rapid.IntRange(1, 4).Draw(t, "members") {
		args = append(append(args, somePosition(t)...), somePlace(t))
	}
	return args
}

func drawRadius(t *rapid.T) []string {
	return slices.Concat([]string{someKey(t)}, somePosition(t), []string{someRadius(t), someUnit(t)}, geoOptions(t, []string{"STORE", someKey(t)}, []string{"STOREDIST", distancesKey}))
}

func drawRadiusByMember(t *rapid.T) []string {
	return slices.Concat([]string{someKey(t), somePlace(t), someRadius(t), someUnit(t)}, geoOptions(t, []string{"STORE", someKey(t)}, []string{"STOREDIST", distancesKey}))
}
