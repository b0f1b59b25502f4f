package redis

import (
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
	}},
	{name: "geohash", draw: func(t *rapid.T) []string { return append([]string{someKey(t)}, several(t, 0, 3, somePlace)...) }},
	{name: "geopos", draw: func(t *rapid.T) []string { return append([]string{someKey(t)}, several(t, 0, 3, somePlace)...) }},
	{name: "geosearch", draw: func(t *rapid.T) []string {
		return slices.Concat([]string{someKey(t)}, drawSearch(t), geoOptions(t))
	}},
	{name: "geosearch", same: anyOrder, draw: func(t *rapid.T) []string { return append([]string{someKey(t)}, drawSearch(t)...) }},
	{name: "geosearchstore", draw: func(t *rapid.T) []string {
		return slices.Concat([]string{someKey(t), someKey(t)}, drawSearch(t), options(t, []string{"STOREDIST"}, []string{"COUNT", "2"}, []string{"WITHDIST"}))
	}},
	{name: "georadius", draw: drawRadius},
	{name: "georadius_ro", draw: drawRadius},
	{name: "georadiusbymember", draw: drawRadiusByMember},
	{name: "georadiusbymember_ro", draw: drawRadiusByMember},
	{name: "zrange", draw: func(t *rapid.T) []string { return []string{someKey(t), "0", "-1"} }},
	{name: "set", draw: func(t *rapid.T) []string { return []string{someKey(t), "x"} }},
	{name: "del", draw: func(t *rapid.T) []string { return []string{someKey(t)} }},
}

func drawGeoAdd(t *rapid.T) []string {
	args := append([]string{someKey(t)}, options(t, []string{"NX"}, []string{"XX"}, []string{"CH"})...)
	for range rapid.IntRange(1, 4).Draw(t, "members") {
		args = append(append(args, somePosition(t)...), somePlace(t))
	}
	return args
}

func drawRadius(t *rapid.T) []string {
	return slices.Concat([]string{someKey(t)}, somePosition(t), []string{someRadius(t), someUnit(t)}, geoOptions(t, []string{"STORE", someKey(t)}, []string{"STOREDIST", someKey(t)}))
}

func drawRadiusByMember(t *rapid.T) []string {
	return slices.Concat([]string{someKey(t), somePlace(t), someRadius(t), someUnit(t)}, geoOptions(t, []string{"STORE", someKey(t)}, []string{"STOREDIST", someKey(t)}))
}
