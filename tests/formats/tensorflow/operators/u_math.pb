
;
xPlaceholder*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ

ExpExpx*
T0
"
IdentityIdentityExp*
T0

Expm1Expm1x*
T0
&

Identity_1IdentityExpm1*
T0

SinSinx*
T0
$

Identity_2IdentitySin*
T0

CosCosx*
T0
$

Identity_3IdentityCos*
T0

TanTanx*
T0
$

Identity_4IdentityTan*
T0

AsinAsinx*
T0
%

Identity_5IdentityAsin*
T0

AcosAcosx*
T0
%

Identity_6IdentityAcos*
T0

AtanAtanx*
T0
%

Identity_7IdentityAtan*
T0

SinhSinhx*
T0
%

Identity_8IdentitySinh*
T0

CoshCoshx*
T0
%

Identity_9IdentityCosh*
T0

AsinhAsinhx*
T0
'
Identity_10IdentityAsinh*
T0

AtanhAtanhx*
T0
'
Identity_11IdentityAtanh*
T0

ErfErfx*
T0
%
Identity_12IdentityErf*
T0

ErfcErfcx*
T0
&
Identity_13IdentityErfc*
T0

FloorFloorx*
T0
'
Identity_14IdentityFloor*
T0

CeilCeilx*
T0
&
Identity_15IdentityCeil*
T0

RoundRoundx*
T0
'
Identity_16IdentityRound*
T0

RintRintx*
T0
&
Identity_17IdentityRint*
T0
$

Reciprocal
Reciprocalx*
T0
,
Identity_18Identity
Reciprocal*
T0

SquareSquarex*
T0
(
Identity_19IdentitySquare*
T0
#
erfinv/ErfinvErfinvx*
T0
/
Identity_20Identityerfinv/Erfinv*
T0

AbsAbsx*
T0
%
Identity_21IdentityAbs*
T0

NegNegx*
T0
%
Identity_22IdentityNeg*
T0"ª