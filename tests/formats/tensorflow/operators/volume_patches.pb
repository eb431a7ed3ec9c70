
>
xPlaceholder*
dtype0*
shape:
v
ExtractVolumePatchesExtractVolumePatchesx*
T0*
ksizes	
*
paddingSAME*
strides	

3
IdentityIdentityExtractVolumePatches*
T0
y
ExtractVolumePatches_1ExtractVolumePatchesx*
T0*
ksizes	
*
paddingVALID*
strides	

7

Identity_1IdentityExtractVolumePatches_1*
T0"ª