import{$ as e,At as t,Ct as n,Et as r,Ft as i,Gt as a,It as o,Kt as s,Nt as c,Q as l,R as u,U as d,Ut as f,Vt as p,X as m,Xt as h,Zt as g,_t as _,dt as v,ft as y,gt as b,kt as x,mt as S,p as C,wt as w,xt as T,y as E,yt as D,z as O,zt as k}from"./Page-CqINR8b0.js";var A=`urn:ietf:params:oauth:grant-type:device_code`,j=`urn:ietf:params:oauth:grant-type:token-exchange`,M=[{name:`web`,label:`Web application`,text:`Runs on a server, which can keep a secret`,type:`confidential`,grants:[`authorization_code`,`refresh_token`],redirects:!0},{name:`spa`,label:`Single-page, mobile or desktop app`,text:`Runs on devices of its users: no secret, PKCE instead`,type:`public`,grants:[`authorization_code`,`refresh_token`],redirects:!0},{name:`service`,label:`Service`,text:`Calls the API as itself, without a user`,type:`confidential`,grants:[`client_credentials`],redirects:!1},{name:`device`,label:`Command line or device`,text:`Shows a code, which the user enters in a browser elsewhere`,type:`public`,grants:[A,`refresh_token`],redirects:!1}],N={authorization_code:`Sign-in by redirect`,refresh_token:`Refresh tokens`,client_credentials:`As itself`,[A]:`Device code`,[j]:`Token exchange`},P=e=>N[e]??e,F=e=>[...new Set(e.map(e=>e.trim()).filter(Boolean))];function I(e,t,n){let r=e.checked?.[t]?.indexOf(n.trim())??-1;return r<0?void 0:e.field(`${t}[${r}]`)}var L=e=>e.token_endpoint_auth_method===`private_key_jwt`,R=e=>e.link.replace(/\/console\/oauth\/.*$/,``);function z(e){let t=e.redirect_uris[0];if(!t||!e.grant_types.includes(`authorization_code`))return;let n=[...crypto.getRandomValues(new Uint8Array(43))].map(e=>`ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_`[e%64]).join(``),r={response_type:`code`,client_id:e.id,redirect_uri:t,scope:e.scopes.join(` `),state:`console`,code_challenge:n,code_challenge_method:`S256`};return`/authorize?`+new URLSearchParams(r)}function B(e){let t=JSON.stringify,n=R(e),r=e.client_type===`confidential`,i=e.redirect_uris[0]??`https://app.example.com/callback`,a=e.scopes.join(` `),o=L(e),s=n.startsWith(`http:`)?`${o?``:`
  undefined,`}\n  { execute: [oidc.allowInsecureRequests] }, // the issuer is plain http`:``,c=o?`undefined,
  oidc.PrivateKeyJwt(privateKey), // a CryptoKey`:`process.env.STEWARD_CLIENT_SECRET,`,l=[],u=(e,t,n)=>l.push({name:e,label:t,text:n.trim()});e.grant_types.includes(`authorization_code`)&&r&&(u(`node`,`Node.js`,`
// npm install openid-client
import * as oidc from "openid-client";

const config = await oidc.discovery(
  new URL(${t(n)}),
  ${t(e.id)},
  ${c}${s}
);

// Send the user to this address. Keep verifier and state in the session.
const verifier = oidc.randomPKCECodeVerifier();
const state = oidc.randomState();
const address = oidc.buildAuthorizationUrl(config, {
  redirect_uri: ${t(i)},
  scope: ${t(a)},
  state,
  code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
  code_challenge_method: "S256",
});

// When the user comes back:
const tokens = await oidc.authorizationCodeGrant(config, new URL(request.url), {
  pkceCodeVerifier: verifier,
  expectedState: state,
});
console.log(tokens.claims());`),u(`nextjs`,`Next.js`,`
// npm install next-auth@beta
// Its redirect URI is https://<your host>/api/auth/callback/steward
import NextAuth from "next-auth";

export const { handlers, auth, signIn, signOut } = NextAuth({
  providers: [
    {
      id: "steward",
      name: "Steward",
      type: "oidc",
      issuer: ${t(n)},
      clientId: ${t(e.id)},
      clientSecret: process.env.STEWARD_CLIENT_SECRET,
      authorization: { params: { scope: ${t(a)} } },
    },
  ],
});`),u(`python`,`Python`,`
# pip install authlib flask requests
import os
from authlib.integrations.flask_client import OAuth
from flask import Flask, session

app = Flask(__name__)
app.secret_key = os.environ["FLASK_SECRET_KEY"]
steward = OAuth(app).register(
    "steward",
    client_id=${t(e.id)},
    client_secret=os.environ["STEWARD_CLIENT_SECRET"],
    server_metadata_url=${t(n+`/.well-known/openid-configuration`)},
    client_kwargs={"scope": ${t(a)}, "code_challenge_method": "S256"},
)

@app.get("/login")
def login():
    return steward.authorize_redirect(${t(i)})

@app.get("/callback")
def callback():
    session["user"] = steward.authorize_access_token()["userinfo"]
    return session["user"]`),u(`go`,`Go`,`
// go get github.com/coreos/go-oidc/v3/oidc golang.org/x/oauth2
provider, err := oidc.NewProvider(ctx, ${t(n)})
if err != nil {
	return err
}
config := oauth2.Config{
	ClientID:     ${t(e.id)},
	ClientSecret: os.Getenv("STEWARD_CLIENT_SECRET"),
	Endpoint:     provider.Endpoint(),
	RedirectURL:  ${t(i)},
	Scopes:       []string{${e.scopes.map(e=>t(e)).join(`, `)}},
}

// Send the user to this address. Keep verifier and state in the session.
verifier := oauth2.GenerateVerifier()
address := config.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier))

// When the user comes back:
token, err := config.Exchange(ctx, r.FormValue("code"), oauth2.VerifierOption(verifier))`)),e.grant_types.includes(`authorization_code`)&&!r&&(u(`browser`,`Browser`,`
// npm install oidc-client-ts
import { UserManager } from "oidc-client-ts";

const users = new UserManager({
  authority: ${t(n)},
  client_id: ${t(e.id)},
  redirect_uri: ${t(i)},
  scope: ${t(a)},
});

// The button "Sign in":
await users.signinRedirect();

// On the page of the redirect URI:
const user = await users.signinCallback();
console.log(user.profile);`),u(`react`,`React`,`
// npm install react-oidc-context oidc-client-ts
import { AuthProvider, useAuth } from "react-oidc-context";

const settings = {
  authority: ${t(n)},
  client_id: ${t(e.id)},
  redirect_uri: ${t(i)},
  scope: ${t(a)},
};

export const App = () => <AuthProvider {...settings}><SignIn /></AuthProvider>;

function SignIn() {
  const auth = useAuth();
  if (auth.isAuthenticated) return <p>Hello {auth.user?.profile.name}</p>;
  return <button onClick={() => auth.signinRedirect()}>Sign in</button>;
}`)),e.grant_types.includes(`client_credentials`)&&u(`service`,`As itself (curl)`,`
curl ${C(n+`/oauth/token`)} \\
  -u ${C(e.id)}:"$STEWARD_CLIENT_SECRET" \\
  -d grant_type=client_credentials \\
  --data-urlencode ${C(`scope=`+e.scopes.filter(e=>e.includes(`:`)).join(` `))}`),e.grant_types.includes(A)&&u(`device`,`Device code (curl)`,`
# Show user_code and verification_uri of the answer to the user.
curl ${C(n+`/device_authorization`)} \\
  -d client_id=${C(e.id)}${r?` -d client_secret="$STEWARD_CLIENT_SECRET"`:``} \\
  --data-urlencode ${C(`scope=`+a)}

# Then ask for the tokens every few seconds, as "interval" says.
curl ${C(n+`/oauth/token`)} \\
  -d client_id=${C(e.id)}${r?` -d client_secret="$STEWARD_CLIENT_SECRET"`:``} \\
  -d grant_type=${A} \\
  -d device_code="$DEVICE_CODE"`),e.grant_types.includes(`urn:ietf:params:oauth:grant-type:token-exchange`)&&u(`exchange`,`Token exchange (curl)`,`
# ACCESS_TOKEN was issued to this app or for its audience.
curl ${C(n+`/oauth/token`)} \\
  -u ${C(e.id)}:"$STEWARD_CLIENT_SECRET" \\
  -d grant_type=${j} \\
  -d subject_token="$ACCESS_TOKEN" \\
  -d subject_token_type=urn:ietf:params:oauth:token-type:access_token`);let d={OIDC_ISSUER:n,OIDC_CLIENT_ID:e.id,...r&&!o?{OIDC_CLIENT_SECRET:`<the secret>`}:{},OIDC_REDIRECT_URI:i,OIDC_SCOPES:a};return u(`env`,`Environment`,Object.entries(d).map(([e,n])=>`${e}=${t(n)}`).join(`
`)),o?l.filter(e=>!e.text.includes(`STEWARD_CLIENT_SECRET`)):l}var V=class{#e=p();get problem(){return r(this.#e)}set problem(e){k(this.#e,e)}#t=p();get checked(){return r(this.#t)}set checked(e){k(this.#t,e)}field(e){return this.problem?.field(e)??``}};function H(e,n){let r=new V;return t(()=>{let t=e(),i=new AbortController,a=setTimeout(async()=>{let e=await W(n(t,i.signal));i.signal.aborted||e&&U(e)||(r.problem=e,r.checked=t)},250);return()=>{clearTimeout(a),i.abort()}}),r}function U(e){return O(e)||e.status===401||e.code===`reauthentication_required`}async function W(e){try{await e}catch(e){return u(e)}}var G=D(`<span class="fault"> </span>`),K=D(`<span class="hint good">This address can be used.</span>`),q=D(`<div class="field"><div class="row uri"><input class="input grow mono" placeholder="https://app.example.com/callback" autocomplete="off" spellcheck="false" inputmode="url"/> <button type="button" class="btn plain square"><!></button></div> <span role="status"><!></span></div>`),J=D(`<div><button type="button" class="btn tiny"><!>Add address</button></div>`),Y=D(`<fieldset><legend> </legend> <p class="small soft"> </p> <!> <!></fieldset>`);function X(t,n){let u=T();s(n,!0);let p=d(n,`uris`,15);var C=Y(),D=c(C),O=i(D,!0),k=o(D,2),A=i(k,!0),j=o(k,2);v(j,17,p,y,(t,a,s)=>{let d=f(()=>n.verdict(r(a)));var h=q(),v=c(h),y=c(v);l(y);var C=o(y,2),T=c(C);E(T,{name:`close`}),g(C),g(v);var D=o(v,2),O=c(D),k=e=>{var t=G(),n=i(t,!0);x(()=>b(n,r(d))),_(e,t)},A=e=>{var t=K();_(e,t)};S(O,e=>{r(d)?e(k):r(d)===``&&e(A,1)}),g(D),g(h),x(()=>{e(y,`name`,n.name),e(y,`aria-label`,`${n.label} ${s+1}`),e(y,`aria-invalid`,r(d)?`true`:void 0),e(y,`aria-describedby`,`${u}-${s}`),e(C,`aria-label`,`Remove ${n.label} ${s+1}`),e(D,`id`,`${u}-${s}`)}),m(y,()=>p()[s],e=>p(p()[s]=e,!0)),w(`click`,C,()=>p(p().filter((e,t)=>t!==s))),_(t,h)});var M=o(j,2),N=e=>{var t=J(),n=c(t),r=c(n);E(r,{name:`plus`}),h(),g(n),g(t),w(`click`,n,()=>p([...p(),``])),_(e,t)};S(M,e=>{p().length<100&&e(N)}),g(C),x(()=>{b(O,n.label),b(A,n.hint)}),_(t,C),a()}n([`click`]);export{L as a,B as c,I as d,P as i,j as l,H as n,R as o,F as r,M as s,X as t,z as u};