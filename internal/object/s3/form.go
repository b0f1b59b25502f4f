package s3

import (
	"crypto/hmac"
	"errors"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/metrics"
	"github.com/versity/versitygw/s3api/controllers"
	"github.com/versity/versitygw/s3api/middlewares"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"
)

// maxPolicyAge is how long a signature of a form is valid, if its policy is.
const maxPolicyAge = 7 * 24 * time.Hour

// forms stores the files of HTML forms. It stands before the protocol's own route, which reads the
// fields of a form into memory, of whatever size, before it knows who sends it.
type forms struct {
	gateway  *gateway
	accounts *accounts
	root     middlewares.RootUserConfig
	region   string
	domain   string
	now      func() time.Time
}

// handler returns the handler of POST /{bucket} with a form.
func (f *forms) handler() fiber.Handler {
	protocol := controllers.New(f.gateway, f.accounts, nil, nil, nil, false, true, f.domain, 0)
	post := controllers.ProcessHandlers(protocol.POSTObject, metrics.ActionPostObject, &controllers.Services{},
		middlewares.BucketObjectNameValidator(),
		middlewares.ApplyBucketCORS(f.gateway, middlewares.BucketFromPath, ""),
		f.authorize,
		middlewares.ParseAcl(f.gateway),
	)
	return func(ctx fiber.Ctx) error {
		if ctx.Locals(formUpload) == nil {
			return ctx.Next()
		}
		utils.ContextKeyRegion.Set(ctx, f.region)
		utils.ContextKeyStartTime.Set(ctx, time.Now())
		utils.ContextKeyRootAccessKey.Set(ctx, f.root.Access)
		return post(ctx)
	}
}

// authorize reads the fields of a form and verifies the signature of its policy. The policy itself
// is checked afterwards, with the bucket and the fields; the size of the file as it is read.
func (f *forms) authorize(ctx fiber.Ctx) error {
	form, err := parseForm(ctx)
	if err != nil {
		return err
	}
	switch key := form.fields["key"]; {
	case key == "":
		return s3err.PostAuth.MissingField("key")
	case !utils.IsObjectNameValid(key):
		return s3err.GetAPIError(s3err.ErrBadRequest)
	}
	account, err := f.verify(form.fields)
	if err != nil {
		return err
	}
	if err := checkFields(form.fields); err != nil {
		return err
	}
	file := &formFile{
		r: form.file, size: sizeRangeOf(form.fields["policy"]),
		storageClass: form.fields["x-amz-storage-class"], tagging: form.fields["tagging"],
	}
	utils.ContextKeyAccount.Set(ctx, account)
	utils.ContextKeyIsRoot.Set(ctx, false)
	utils.ContextKeyAuthenticated.Set(ctx, true)
	utils.ContextKeyObjectPostResult.Set(ctx, middlewares.PostObjectResult{
		Fields: form.fields, FileRdr: file, ContentLength: file.size.min, // which the policy allows
	})
	return nil
}

// verify returns the account that has signed the policy of a form.
func (f *forms) verify(fields map[string]string) (auth.Account, error) {
	if fields["awsaccesskeyid"] != "" {
		return auth.Account{}, errSignatureV2()
	}
	for _, name := range []string{"policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature"} {
		if fields[name] == "" {
			return auth.Account{}, s3err.GetAPIError(s3err.ErrAccessDenied) // nobody writes without a signature
		}
	}
	if a := fields["x-amz-algorithm"]; a != "AWS4-HMAC-SHA256" {
		return auth.Account{}, s3err.GetInvalidArgumentErr(s3err.InvalidArgOnlyAws4HmacSha256, a)
	}
	credential := fields["x-amz-credential"]
	scope, err := utils.ParseCredentials(credential, s3err.PostAuth)
	if err != nil {
		return auth.Account{}, err
	}
	if scope.Region != f.region {
		return auth.Account{}, s3err.PostAuth.IncorrectRegion(credential, f.region, scope.Region)
	}
	signed, err := time.Parse("20060102T150405Z", fields["x-amz-date"])
	if err != nil || signed.Format("20060102") != scope.Date {
		return auth.Account{}, s3err.GetInvalidArgumentErr(s3err.InvalidArgDateHeader, fields["x-amz-date"])
	}
	if f.now().Sub(signed) > maxPolicyAge {
		return auth.Account{}, s3err.InvalidPolicyDocument.PolicyExpired()
	}
	return f.verifySignature(scope, fields)
}

func (f *forms) verifySignature(scope *utils.CredentialsScope, fields map[string]string) (auth.Account, error) {
	root := auth.Account{Access: f.root.Access, Secret: f.root.Secret, Role: auth.RoleAdmin}
	key, account, err := auth.ResolveDerivedKey(f.accounts, root, scope.Access, fields["x-amz-security-token"], scope.Date, scope.Region, "s3")
	switch {
	case errors.Is(err, auth.ErrNoSuchUser):
		return auth.Account{}, s3err.GetInvalidAccessKeyIdErr(scope.Access)
	case errors.Is(err, auth.ErrInvalidSessionToken):
		return auth.Account{}, s3err.GetAPIError(s3err.ErrInvalidToken)
	case err != nil:
		return auth.Account{}, err
	}
	policy := fields["policy"]
	want, err := utils.SignPostPolicy(policy, key)
	if err != nil {
		return auth.Account{}, err
	}
	if got := fields["x-amz-signature"]; !hmac.Equal([]byte(want), []byte(got)) {
		return auth.Account{}, s3err.GetSignatureDoesNotMatchErr(account.Access, policy, got, utils.HexBytes(policy), "", "")
	}
	return account, nil
}
