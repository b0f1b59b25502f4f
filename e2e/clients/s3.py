"""Uses a bucket with boto3, the AWS SDK for Python, with its defaults."""

import io
import sys
import urllib.request

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

endpoint, bucket = sys.argv[1:]
s3 = boto3.client("s3", endpoint_url=endpoint, config=Config(signature_version="s3v4"))


def text(key, **kwargs):
    return s3.get_object(Bucket=bucket, Key=key, **kwargs)["Body"].read()


def refused(code, call, **kwargs):
    try:
        call(Bucket=bucket, **kwargs)
    except ClientError as e:
        assert e.response["Error"]["Code"] == code, (code, e)
    else:
        raise AssertionError("expected " + code)


# Objects with everything that they can have.
put = s3.put_object(Bucket=bucket, Key="dir/\u00fc+ %&.txt", Body=b"a text", ContentType="text/plain", Metadata={"color": "red"},
                    Tagging="team=storage&state=new", StorageClass="STANDARD_IA", ChecksumAlgorithm="SHA256", CacheControl="no-cache")
head = s3.head_object(Bucket=bucket, Key="dir/\u00fc+ %&.txt", ChecksumMode="ENABLED")
assert (head["Metadata"], head["StorageClass"], head["CacheControl"]) == ({"color": "red"}, "STANDARD_IA", "no-cache"), head
assert head["ChecksumSHA256"] == put["ChecksumSHA256"] and head["ETag"] == put["ETag"], head
tags = s3.get_object_tagging(Bucket=bucket, Key="dir/\u00fc+ %&.txt")["TagSet"]
assert tags == [{"Key": "team", "Value": "storage"}, {"Key": "state", "Value": "new"}], tags
assert text("dir/\u00fc+ %&.txt") == b"a text" and text("dir/\u00fc+ %&.txt", Range="bytes=2-3") == b"te"
refused("InvalidRange", s3.get_object, Key="dir/\u00fc+ %&.txt", Range="bytes=99-")
refused("NoSuchKey", s3.get_object, Key="none")
refused("404", s3.head_object, Key="none")
attributes = s3.get_object_attributes(Bucket=bucket, Key="dir/\u00fc+ %&.txt", ObjectAttributes=["ETag", "ObjectSize", "Checksum"])
assert attributes["ObjectSize"] == 6 and attributes["Checksum"]["ChecksumSHA256"] == put["ChecksumSHA256"], attributes

# Copies, and uploads in parts.
s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "dir/\u00fc+ %&.txt"}, MetadataDirective="REPLACE", Metadata={"a": "b"})
assert text("copy") == b"a text" and s3.head_object(Bucket=bucket, Key="copy")["Metadata"] == {"a": "b"}
large = bytes(range(256)) * (48 << 10)  # 12 MiB
parts = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20)
s3.upload_fileobj(io.BytesIO(large), bucket, "large", Config=parts)
assert s3.head_object(Bucket=bucket, Key="large")["ETag"].endswith('-3"')
got = io.BytesIO()
s3.download_fileobj(bucket, "large", got, Config=parts)
assert got.getvalue() == large
s3.copy({"Bucket": bucket, "Key": "large"}, bucket, "large copy", Config=parts)
assert text("large copy") == large
upload = s3.create_multipart_upload(Bucket=bucket, Key="left")["UploadId"]
s3.upload_part(Bucket=bucket, Key="left", UploadId=upload, PartNumber=1, Body=b"x")
assert [u["Key"] for u in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == ["left"]
assert s3.list_parts(Bucket=bucket, Key="left", UploadId=upload)["Parts"][0]["Size"] == 1
s3.abort_multipart_upload(Bucket=bucket, Key="left", UploadId=upload)
refused("NoSuchUpload", s3.list_parts, Key="left", UploadId=upload)

# Lists page by page.
pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": 1})
assert [o["Key"] for page in pages for o in page["Contents"]] == ["copy", "dir/\u00fc+ %&.txt", "large", "large copy"]
folders = s3.list_objects(Bucket=bucket, Delimiter="/")
assert [p["Prefix"] for p in folders["CommonPrefixes"]] == ["dir/"] and len(folders["Contents"]) == 3, folders

# Presigned URLs and forms.
url = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "copy", "ResponseContentType": "text/html"})
with urllib.request.urlopen(url) as response:
    assert response.read() == b"a text" and response.headers["Content-Type"] == "text/html"
url = s3.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "presigned"})
with urllib.request.urlopen(urllib.request.Request(url, b"by URL", method="PUT", headers={"Content-Type": ""})) as response:
    assert response.status == 200
form = s3.generate_presigned_post(bucket, "forms/${filename}", Fields={"success_action_status": "201"},
                                  Conditions=[{"success_action_status": "201"}, ["content-length-range", 1, 100]])
body = b"".join(b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value.encode())
                for name, value in form["fields"].items())
body += b'--x\r\nContent-Disposition: form-data; name="file"; filename="f.txt"\r\n\r\nby form\r\n--x--\r\n'
with urllib.request.urlopen(urllib.request.Request(form["url"], body, {"Content-Type": "multipart/form-data; boundary=x"})) as response:
    assert response.status == 201
assert (text("presigned"), text("forms/f.txt")) == (b"by URL", b"by form")

# What is not configured.
for code, call in {
    "NoSuchLifecycleConfiguration": s3.get_bucket_lifecycle_configuration,
    "ServerSideEncryptionConfigurationNotFoundError": s3.get_bucket_encryption,
    "NoSuchPublicAccessBlockConfiguration": s3.get_public_access_block,
}.items():
    refused(code, call)
assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket=bucket)
assert s3.get_bucket_acl(Bucket=bucket)["Grants"][0]["Permission"] == "FULL_CONTROL"

keys = [{"Key": o["Key"]} for o in s3.list_objects_v2(Bucket=bucket)["Contents"]]
assert len(s3.delete_objects(Bucket=bucket, Delete={"Objects": keys})["Deleted"]) == 6
assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
