// Package object owns buckets and their objects: the index, totals, daily usage, configuration, and the
// management API's routes for them. Package blob keeps the bytes; package s3 speaks the protocol.
//
// Each part is a type with its own tables, in files named after it:
//
//   - Buckets (store_buckets.go): names, credentials and configuration.
//   - Blobs (store_blobs*.go): the bytes of objects and parts, and the table that says which blobs are in use.
//   - Index (store_index*.go): objects, the blocks that count them, and lists.
//   - Uploads (store_uploads*.go): multipart uploads, their parts, and answers to completions.
//   - Totals (store_totals.go): how much buckets hold and held, for statistics and prices.
//   - Cleaner (cleaner.go): the workers.
//
// A write first stores its bytes: Index.Put makes Blobs write them to the blob store under a new id. Then
// Index.changeAll, the only function that changes a bucket's objects, locks the bucket and writes
// everything that follows in one transaction: the row, the blob references, the block counts, the bucket's
// totals, the day's usage and the events. Writers in one process share transactions. A copy puts the bytes
// that Blobs.Open returns; copies onto themselves, tags and deletions change no bytes. Uploads.PutPart
// writes a blob and the part's row. Uploads.Complete changes the object to refer to the parts' blobs and
// removes the upload, in one transaction. Management routes (http.go) and package s3 both call these
// functions.
//
// Lists are exact, because each answer reads a single snapshot. We divide a bucket's keys into blocks of at
// most 2,000 objects and count each block. To count the objects under any prefix, or to find the page at
// any offset, we add up blocks and look into one or two of them.
//
// Every blob that an object or a part refers to has a row in the blobs table. A replaced or deleted blob
// becomes garbage; after a grace period for readers we delete its bytes and then its row. A process that
// dies between writing the bytes and the commit leaves bytes without a row: Cleaner.Sweep removes them a
// day after their id was made. Writes refuse to refer to a blob half as old, so Sweep never removes one
// that is in use.
package object
