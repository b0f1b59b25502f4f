package object

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"steward/internal/db"
)

// block counts the objects between its first key and the next block's.
type block struct {
	bucketID string
	firstKey string
	objects  int64
	bytes    int64
}

func scanBlock(r db.Row) (b block, err error) {
	return b, r.Scan(&b.bucketID, &b.firstKey, &b.objects, &b.bytes)
}

const blockColumns = `bucket_id, first_key, objects, bytes`

// writeBlocks adds each row's difference to the block that its key falls into, and keeps blocks within
// their limits.
func (b *batch) writeBlocks() error {
	deltas, err := b.blockDeltas()
	if err != nil {
		return err
	}
	changed, err := db.CollectBulk(b.tx, db.Bulk[block](deltas), scanBlock, `UPDATE object_blocks AS b
		SET objects = b.objects + v.objects, bytes = b.bytes + v.bytes {FROM v}
		WHERE b.bucket_id = v.bucket_id AND b.first_key = v.first_key RETURNING `+blockColumns)
	if err != nil {
		return fmt.Errorf("update blocks: %w", err)
	}
	if len(changed) != len(deltas) {
		return fmt.Errorf("update blocks: %d of %d exist", len(changed), len(deltas))
	}
	return balanceBlocks(b.tx, b.index.limits(), changed)
}

// balanceBlocks splits large blocks before it merges small ones, because splitting needs counts that no
// merge has changed yet.
func balanceBlocks(tx *db.Tx, limits Limits, changed []block) error {
	for _, b := range changed {
		if err := splitBlock(tx, limits, b); err != nil {
			return err
		}
	}
	for _, b := range changed {
		if b.objects >= limits.MinBlock {
			continue
		}
		if err := mergeBlock(tx, limits, b); err != nil {
			return err
		}
	}
	return nil
}

// blockDeltas returns by how much each block changes.
func (b *batch) blockDeltas() ([]block, error) {
	var keys db.Bulk[rowKey]
	for at, r := range b.rows {
		if d := r.delta(); d != (block{}) {
			keys = append(keys, at)
		}
	}
	type place struct{ rowKey, block rowKey }
	places, err := db.CollectBulk(b.tx, keys, func(r db.Row) (p place, err error) {
		err = r.Scan(&p.rowKey.bucketID, &p.rowKey.key, &p.block.key)
		p.block.bucketID = p.rowKey.bucketID
		return p, err
	}, `SELECT v.bucket_id, v.key,
		(SELECT MAX(b.first_key) FROM object_blocks b WHERE b.bucket_id = v.bucket_id AND b.first_key <= v.key) FROM {v}`)
	if err != nil {
		return nil, fmt.Errorf("find blocks: %w", err)
	}
	sums := map[rowKey]block{}
	for _, p := range places {
		d := b.rows[p.rowKey].delta()
		sum := sums[p.block]
		sums[p.block] = block{p.block.bucketID, p.block.key, sum.objects + d.objects, sum.bytes + d.bytes}
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b block) int {
		return cmp.Or(cmp.Compare(a.bucketID, b.bucketID), cmp.Compare(a.firstKey, b.firstKey))
	}), nil
}

// delta returns by how much a row changes its block.
func (r *row) delta() (d block) {
	if r.new != nil {
		d.objects++
		d.bytes += r.new.Size
	}
	if r.old != nil {
		d.objects--
		d.bytes -= r.old.Size
	}
	return d
}

// splitBlock splits a block at its median until no part is too large.
func splitBlock(tx *db.Tx, limits Limits, b block) error {
	if b.objects <= limits.MaxBlock {
		return nil
	}
	lower := block{bucketID: b.bucketID, firstKey: b.firstKey, objects: b.objects / 2}
	upper := block{bucketID: b.bucketID, objects: b.objects - lower.objects}
	if err := tx.Row(`SELECT key FROM objects WHERE bucket_id = $1 AND key >= $2 ORDER BY key LIMIT 1 OFFSET $3`,
		b.bucketID, b.firstKey, lower.objects).Scan(&upper.firstKey); err != nil {
		return fmt.Errorf("find median of block: %w", err)
	}
	sum, err := countRows(tx, b.bucketID, keyRange{b.firstKey, upper.firstKey})
	if err != nil {
		return err
	}
	lower.bytes = sum.bytes
	upper.bytes = b.bytes - lower.bytes
	if err := setBlock(tx, lower); err != nil {
		return err
	}
	if _, err := tx.Exec(`INSERT INTO object_blocks (`+blockColumns+`) VALUES ($1, $2, $3, $4)`,
		upper.bucketID, upper.firstKey, upper.objects, upper.bytes); err != nil {
		return fmt.Errorf("insert block: %w", err)
	}
	if err := splitBlock(tx, limits, lower); err != nil {
		return err
	}
	return splitBlock(tx, limits, upper)
}

func setBlock(tx *db.Tx, b block) error {
	if _, err := tx.Exec(`UPDATE object_blocks SET objects = $3, bytes = $4 WHERE bucket_id = $1 AND first_key = $2`,
		b.bucketID, b.firstKey, b.objects, b.bytes); err != nil {
		return fmt.Errorf("update block: %w", err)
	}
	return nil
}

// mergeBlock merges a small block with the next or previous one, unless that is large. It reads the block
// again, because an earlier merge in this transaction may have changed or deleted it.
func mergeBlock(tx *db.Tx, limits Limits, b block) error {
	b, ok, err := findBlock(tx, `first_key = $2`, b.bucketID, b.firstKey)
	if err != nil || !ok || b.objects >= limits.MinBlock {
		return err
	}
	small := func(other block) bool { return b.objects == 0 || max(b.objects, other.objects) < limits.MergeBlock }
	next, ok, err := findBlock(tx, `first_key > $2 ORDER BY first_key LIMIT 1`, b.bucketID, b.firstKey)
	if err != nil {
		return err
	}
	if ok && small(next) {
		return joinBlocks(tx, limits, b, next)
	}
	before, ok, err := findBlock(tx, `first_key < $2 ORDER BY first_key DESC LIMIT 1`, b.bucketID, b.firstKey)
	if err != nil || !ok || !small(before) {
		return err
	}
	return joinBlocks(tx, limits, before, b)
}

func findBlock(tx *db.Tx, condition, bucketID, key string) (b block, ok bool, err error) {
	b, err = scanBlock(tx.Row(`SELECT `+blockColumns+` FROM object_blocks WHERE bucket_id = $1 AND `+condition, bucketID, key))
	if errors.Is(err, db.ErrNoRows) {
		return b, false, nil
	}
	if err != nil {
		return b, false, fmt.Errorf("read block: %w", err)
	}
	return b, true, nil
}

// joinBlocks adds a block to the one before it, which may still be small afterwards.
func joinBlocks(tx *db.Tx, limits Limits, first, second block) error {
	first.objects += second.objects
	first.bytes += second.bytes
	if _, err := tx.Exec(`DELETE FROM object_blocks WHERE bucket_id = $1 AND first_key = $2`, second.bucketID, second.firstKey); err != nil {
		return fmt.Errorf("delete block: %w", err)
	}
	if err := setBlock(tx, first); err != nil {
		return err
	}
	return mergeBlock(tx, limits, first)
}

const sumBlocksText = `SELECT CAST(COALESCE(SUM(objects), 0) AS BIGINT), CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM object_blocks
	WHERE bucket_id = $1 AND first_key >= $2 AND first_key < $3`

// countRange returns a key range's exact sums. It adds up the blocks inside the range and counts rows at
// both ends.
func countRange(q db.Querier, bucketID string, keys keyRange) (sums, error) {
	first, last, err := blocksWithin(q, bucketID, keys)
	if err != nil {
		return sums{}, err
	}
	if first == nil || *first >= keys.to {
		return countRows(q, bucketID, keys)
	}
	before, err := countRows(q, bucketID, keyRange{keys.from, *first})
	if err != nil {
		return sums{}, err
	}
	after, err := countRows(q, bucketID, keyRange{*last, keys.to})
	if err != nil {
		return sums{}, err
	}
	var within sums
	if err := q.Row(sumBlocksText, bucketID, *first, *last).Scan(&within.objects, &within.bytes); err != nil {
		return sums{}, fmt.Errorf("sum blocks: %w", err)
	}
	return before.plus(within).plus(after), nil
}

const blocksWithinText = `SELECT (SELECT MIN(first_key) FROM object_blocks WHERE bucket_id = $1 AND first_key > $2),
	(SELECT MAX(first_key) FROM object_blocks WHERE bucket_id = $1 AND first_key < $3)`

// blocksWithin returns where the first block after keys.from and the last one before keys.to begin, or nil.
func blocksWithin(q db.Querier, bucketID string, keys keyRange) (first, last *string, err error) {
	if err := q.Row(blocksWithinText, bucketID, keys.from, keys.to).Scan(&first, &last); err != nil {
		return nil, nil, fmt.Errorf("find blocks: %w", err)
	}
	return first, last, nil
}

const countRowsText = `SELECT count(*), CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM objects WHERE bucket_id = $1 AND key >= $2 AND key < $3`

// countRows counts rows one by one. Use it for ranges that are about as large as a block.
func countRows(q db.Querier, bucketID string, keys keyRange) (s sums, err error) {
	if err := q.Row(countRowsText, bucketID, keys.from, keys.to).Scan(&s.objects, &s.bytes); err != nil {
		return sums{}, fmt.Errorf("count objects: %w", err)
	}
	return s, nil
}

// blockAtText finds the block that contains object number $3, counting from the start of block $2.
const blockAtText = `SELECT first_key, before FROM (
	SELECT first_key, objects, CAST(SUM(objects) OVER (ORDER BY first_key ROWS UNBOUNDED PRECEDING) AS BIGINT) - objects AS before
	FROM object_blocks WHERE bucket_id = $1 AND first_key >= $2) AS b
	WHERE before <= $3 AND before + objects > $3 LIMIT 1`

// seek finds a place near object number offset in the range: you reach the object by skipping skip objects
// from the key at.
func (s *Index) seek(q db.Querier, bucketID string, from keyRange, offset int64) (at string, skip int64, err error) {
	if offset <= s.limits().MaxBlock {
		return from.from, offset, nil
	}
	first, _, err := blocksWithin(q, bucketID, from)
	if err != nil {
		return "", 0, err
	}
	if first == nil {
		return from.from, offset, nil
	}
	before, err := countRows(q, bucketID, keyRange{from.from, *first})
	if err != nil {
		return "", 0, err
	}
	if offset < before.objects {
		return from.from, offset, nil
	}
	offset -= before.objects
	var passed int64
	if err := q.Row(blockAtText, bucketID, *first, offset).Scan(&at, &passed); err != nil {
		return "", 0, fmt.Errorf("find block: %w", err)
	}
	return at, offset - passed, nil
}
