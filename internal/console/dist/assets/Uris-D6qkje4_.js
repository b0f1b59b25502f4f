import{$ as e,At as t,B as n,Bt as r,Dt as i,Ht as a,It as o,Kt as s,Lt as c,Pt as l,Qt as u,St as d,Tt as f,W as p,Wt as m,Z as h,Zt as g,_t as _,bt as v,et as y,ft as b,ht as x,jt as S,p as C,pt as w,qt as T,vt as E,wt as D,y as O,z as k}from"./Page-B-veeepe.js";var A=`urn:ietf:params:oauth:grant-type:device_code`,j=`urn:ietf:params:oauth:grant-type:token-exchange`,M=[{name:`web`,label:`Web application`,text:`Runs on a server, which can keep a secret`,type:`confidential`,grants:[`authorization_code`,`refresh_token`],redirects:!0},{name:`spa`,label:`Single-page, mobile or desktop app`,text:`Runs on devices of its users: no secret, PKCE instead`,type:`public`,grants:[`authorization_code`,`refresh_token`],redirects:!0},{name:`service`,label:`Service`,text:`Calls the API as itself, without a user`,type:`confidential`,grants:[`client_credentials`],redirects:!1},{name:`device`,label:`Command line or device`,text:`Shows a code, which the user enters in a browser elsewhere`,type:`public`,grants:[A,`refresh_token`],redirects:!1}],N={authorization_code:`Sign-in by redirect`,refresh_token:`Refresh tokens`,client_credentials:`As itself`,[A]:`Device code`,[j]:`Token exchange`},P=e=>N[e]??e,F=e=>[...new Set(e.map(e=>e.trim()).filter(Boolean))];function I(e,t,n){let r=e.checked?.[t]?.indexOf(n.trim())??-1;return r<0?void 0:e.field(`${t}[${r}]`)}var L=e=>e.token_endpoint_auth_method===`private_key_jwt`,R=e=>e.link.replace(/\/console\/oauth\/.*$/,``);function z(e){let t=e.redirect_uris[0];if(!t||!e.grant_types.includes(`authorization_code`))return;let n=[...crypto.getRandomValues(new Uint8Array(43))].map(e=>`ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_`[e%64]).join(``),r={response_type:`code`,client_id:e.id,redirect_uri:t,scope:e.scopes.join(` `),state:`console`,code_challenge:n,code_challenge_method:`S256`};return`/authorize?`+new URLSearchParams(r)}function B(e){let t=JSON.stringify,n=R(e),r=e.client_type===`confidential`,i=e.redirect_uris[0]??`https://app.example.com/callback`,a=e.scopes.join(` `),o=L(e),s=n.startsWith(`http:`)?`${o?``:`
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
`)),o?l.filter(e=>!e.text.includes(`STEWARD_CLIENT_SECRET`)):l}var V=class{#e=a();get problem(){return i(this.#e)}set problem(e){r(this.#e,e)}#t=a();get checked(){return i(this.#t)}set checked(e){r(this.#t,e)}field(e){return this.problem?.field(e)??``}};function H(e,t){let n=new V;return S(()=>{let r=e(),i=new AbortController,a=setTimeout(async()=>{let e=await W(t(r,i.signal));i.signal.aborted||e&&U(e)||(n.problem=e,n.checked=r)},250);return()=>{clearTimeout(a),i.abort()}}),n}function U(e){return n(e)||e.status===401||e.code===`reauthentication_required`}async function W(e){try{await e}catch(e){return k(e)}}var G=v(`<span class="fault"> </span>`),K=v(`<span class="hint good">This address can be used.</span>`),q=v(`<div class="field"><div class="row uri"><input class="input grow mono" placeholder="https://app.example.com/callback" autocomplete="off" spellcheck="false" inputmode="url"/> <button type="button" class="btn plain square"><!></button></div> <span role="status"><!></span></div>`),J=v(`<div><button type="button" class="btn tiny"><!>Add address</button></div>`),Y=v(`<fieldset><legend> </legend> <p class="small soft"> </p> <!> <!></fieldset>`);function X(n,r){let a=d();T(r,!0);let v=p(r,`uris`,15);var S=Y(),C=l(S),D=o(C,!0),k=c(C,2),A=o(k,!0),j=c(k,2);b(j,17,v,w,(n,s,d)=>{let p=m(()=>r.verdict(i(s)));var g=q(),b=l(g),S=l(b);e(S);var C=c(S,2),w=l(C);O(w,{name:`close`}),u(C),u(b);var T=c(b,2),D=l(T),k=e=>{var n=G(),r=o(n,!0);t(()=>_(r,i(p))),E(e,n)},A=e=>{var t=K();E(e,t)};x(D,e=>{i(p)?e(k):i(p)===``&&e(A,1)}),u(T),u(g),t(()=>{y(S,`name`,r.name),y(S,`aria-label`,`${r.label} ${d+1}`),y(S,`aria-invalid`,i(p)?`true`:void 0),y(S,`aria-describedby`,`${a}-${d}`),y(C,`aria-label`,`Remove ${r.label} ${d+1}`),y(T,`id`,`${a}-${d}`)}),h(S,()=>v()[d],e=>v(v()[d]=e,!0)),f(`click`,C,()=>v(v().filter((e,t)=>t!==d))),E(n,g)});var M=c(j,2),N=e=>{var t=J(),n=l(t),r=l(n);O(r,{name:`plus`}),g(),u(n),u(t),f(`click`,n,()=>v([...v(),``])),E(e,t)};x(M,e=>{v().length<100&&e(N)}),u(S),t(()=>{_(D,r.label),_(A,r.hint)}),E(n,S),s()}D([`click`]);export{L as a,B as c,I as d,P as i,j as l,H as n,R as o,F as r,M as s,X as t,z as u};