package redis

// encodings are the sizes up to which small values have their own encoding, as Redis's settings of these
// names say. Here they decide what OBJECT ENCODING returns, and up to which size a hash, set or sorted set
// keeps the order of insertion.
type encodings struct {
	hashMaxListpackEntries, hashMaxListpackValue int
	setMaxIntsetEntries                          int
	zsetMaxListpackEntries, zsetMaxListpackValue int
	listMaxListpackSize                          int
	streamNodeMaxBytes, streamNodeMaxEntries     int
	hllSparseMaxBytes                            int
}

func defaultEncodings() encodings {
	return encodings{
		hashMaxListpackEntries: 512, hashMaxListpackValue: 64,
		setMaxIntsetEntries:    512,
		zsetMaxListpackEntries: 128, zsetMaxListpackValue: 64,
		listMaxListpackSize: -2,
		streamNodeMaxBytes:  4096, streamNodeMaxEntries: 100,
		hllSparseMaxBytes: 3000,
	}
}
