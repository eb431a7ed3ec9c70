
;
xPlaceholder*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
;
bPlaceholder*
dtype0
*
shape:ÿÿÿÿÿÿÿÿÿ

NegNegx*
T0
(
SelectV2SelectV2bxNeg*
T0
'
IdentityIdentitySelectV2*
T0"ª