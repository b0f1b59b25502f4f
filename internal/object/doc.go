// Package object owns buckets and their objects: the index, totals, usage by day, configuration, and what
// the management API says about them. Package blob has the bytes, package s3 speaks the protocol. Webhooks
// and the audit log are func fields.
//
// Each part is a type with its own tables, in files of its name:
//
//   - Buckets (store_buckets.go): names, credentials and configuration.
//   - Blobs (store_blobs*.go): the bytes of objects and parts, and the table of what is referred to.
//   - Index (store_index*.go): objects, the blocks that count them, and lists.
//   - Uploads (store_uploads*.go): multipart uploads, their parts, and answers to completions.
//   - Totals (store_totals.go): what buckets hold and held, for statistics and prices.
//   - Cleaner (cleaner.go): the workers.
//
// How a write moves through it. Index.Put has Blobs write the bytes to the blob store under a new id.
// Then Index.changeAll, the only function that changes objects of a bucket, locks the bucket and
// writes all that follows from the change in one transaction: the row, the references to blobs, the
// counts of blocks, the totals of the bucket, the usage of the day, and the events. Writers of one
// process share transactions. A copy is a Put of the bytes that Blobs.Open returns; a copy onto itself,
// tags and deletions are changes without bytes. Uploads.PutPart writes a blob and the row of the part;
// Uploads.Complete makes a change whose object has the blobs of the parts, and removes the upload, in
// one transaction. Management routes (http.go) and package s3 come in here.
//
// Lists are exact: all that an answer says is read in one snapshot. A bucket's keys are divided into
// blocks of at most 2,000 objects that are counted, so that the number of objects below any prefix,
// and the page at any offset, take a sum over blocks and a look into one or two of them.
//
// What an object or a part refers to is a row in the table of blobs. A blob that is replaced or
// deleted becomes garbage; its bytes, and then its row, are deleted after a grace period for readers.
// A process that ends between the bytes and the commit leaves bytes without a row: Cleaner.Sweep
// removes them a day after their id was made. A write refuses to refer to a blob that is half as old,
// so that Sweep never removes one that is referred to.
package object
