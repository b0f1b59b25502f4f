package redis

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

var hyperLogLogExamples = []example{
	{name: "pfadd", draw: elementsFrom},
	{name: "pfadd", draw: elementsFrom},
	{name: "pfcount", draw: someKeys},
	{name: "pfmerge", draw: someKeys},
	{name: "set", draw: words(oneOf("a"), someValue)},
	{name: "lpush", draw: words(oneOf("b"), someValue)},
	{name: "del", draw: words(someKey)},
}

func elementsFrom(t *rapid.T) []string {
	all := []string{someKey(t)}
	from := rapid.IntRange(0, 1000).Draw(t, "from")
	for i := range rapid.SampledFrom([]int{0, 1, 1, 2, 3, 3, 5, 10, 20, 50, 100, 3000}).Draw(t, "elements") {
		all = append(all, "element:"+strconv.Itoa(from+i))
	}
	return all
}

func TestHyperLogLog(t *testing.T) { compareWithRedis(t, hyperLogLogExamples) }
